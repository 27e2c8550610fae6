"""The step of a script of which nothing was observed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from perfmodel.placement.calibration.correcting.corrected import CalibratedSteps
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior
from perfmodel.placement.calibration.script_gap import ScriptGap
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Response


@dataclass(frozen=True)
class UnobservedScript:
    """Lengthens predicted steps as those of published scripts are longer.

    Parameters
    ----------
    prior : ResidualPrior
        With a gap; the fitted one by default.
    """

    prior: ResidualPrior

    @property
    def gap(self) -> ScriptGap:
        """How much longer the steps are expected to be."""
        assert self.prior.gap is not None, "a prior without a gap is of no scripts"
        return self.prior.gap

    def apply(self, cells: StepCells) -> CalibratedSteps:
        """Return steps as those of scripts, with how far single scripts lie from that.

        What bare steps are uncertain in comes on top only where it concerns other things than the
        device and the host, whose spread was learned with the errors of the predictor in it.
        """
        found = Response(cells, self.prior.neutral(cells))(self.prior.mean(cells))
        slopes, noise = np.array(found.by_step), self.prior.noise
        spread = self.gap.variance(self.prior.variance(cells))
        peculiar = noise.variances(1 - np.exp(-found.channels[1])).sum(axis=0)
        variance = np.sum(slopes**2 * spread, axis=0) + peculiar + noise.repeat**2
        return CalibratedSteps(
            parts=found.parts,
            log_sd=np.sqrt(variance),
            learned=np.zeros(len(cells)),
            seen=np.zeros(len(cells), dtype=np.bool_),
        )


@cache
def typical_script() -> UnobservedScript:
    """Return scripts as the published tables let them expect."""
    return UnobservedScript(fitted_prior().of_scripts())

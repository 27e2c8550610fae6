r"""How much longer steps of scripts take than predicted, before any of the job was observed.

Scripts load, log and wait, and run on frameworks other than those that predictors learned from.
Published tables of such jobs are observations of other jobs: what their posterior says of a job
that is none of them, on a kind of accelerator, is the mean residual of a script there,

.. math:: m_f(a) = E[z_f \mid \text{tables}], \qquad f \in \{\text{device}, \text{host}\},

and that of a kind which no table has is what all kinds share. Synchronisation is left alone: what
the tables say of links between hosts makes jobs that they do not hold worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.fitted import fitted

#: Fields that a script's step differs in before it is observed.
OF_SCRIPTS = (Field.DEVICE, Field.HOST)


@dataclass(frozen=True, kw_only=True)
class ScriptGap:
    """What is believed of a script that was not observed.

    Parameters
    ----------
    usual : mapping of Field to float
        Mean residual, in logarithms, on a kind of accelerator that no table has.
    machines : mapping of str to mapping of Field to float
        On those that tables have, by the word for a machine.
    jobs : mapping of str to int
        Jobs of the tables on each of those.
    sds : mapping of Field to float
        How far single scripts lie from the mean.
    """

    usual: Mapping[Field, float]
    machines: Mapping[str, Mapping[Field, float]]
    jobs: Mapping[str, int]
    sds: Mapping[Field, float]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Read what ``perfmodel fit-placement`` wrote.

        Raises
        ------
        DamagedArtifactError
            It is something else.
        """
        try:
            return cls(
                usual=_by_field(plain["usual"]),
                machines={name: _by_field(one) for name, one in plain["machines"].items()},
                jobs={name: int(count) for name, count in plain["jobs"].items()},
                sds=_by_field(plain["sds"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArtifactError(f"This is no gap of scripts: {error!r}.") from error

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "usual": _by_name(self.usual),
            "machines": {name: _by_name(one) for name, one in self.machines.items()},
            "jobs": dict(self.jobs),
            "sds": _by_name(self.sds),
        }

    def mean(self, cells: StepCells) -> FloatArray:
        """Return by how much the residual of steps is expected to be larger, (fields, rows)."""
        found = np.zeros((len(Field), len(cells)))
        known = [self.on(machine) for machine in cells.machine.tolist()]
        for field in OF_SCRIPTS:
            found[field] = [one[field] for one in known]
        return found

    def on(self, machine: str) -> Mapping[Field, float]:
        """Return by how much residuals on a machine, by its word, are expected to be larger."""
        return self.machines.get(machine, self.usual)

    def variance(self, before: FloatArray) -> FloatArray:
        """Return the variance of residuals of scripts, from that of any job, (fields, rows)."""
        found = before.copy()
        for field in OF_SCRIPTS:
            found[field] = self.sds[field] ** 2
        return found


def _by_field(plain: Mapping[str, Any]) -> dict[Field, float]:
    return {field: float(plain[field.name.lower()]) for field in OF_SCRIPTS}


def _by_name(values: Mapping[Field, float]) -> dict[str, float]:
    return {field.name.lower(): value for field, value in values.items()}


@cache
def fitted_gap() -> ScriptGap:
    """Return the gap that comes with the package.

    Raises
    ------
    DamagedArtifactError
        Its file cannot be read.
    """
    return ScriptGap.from_dict(fitted("scripts"))

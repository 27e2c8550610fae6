r"""How alike the residuals of two steps are before either is observed.

Each field of the residual is a Gaussian process over steps. Its covariance is a sum of terms,

.. math:: K_f(a, b) = \sum_t \sigma_t^2\ scope_t(a, b)\ shape_t(a, b),

where the scope says for whom a term is common (the same machine or fabric, ``place``; the same
``job``; both, ``own``; every step, ``all``, without which what all steps share would be counted of
the machine and of the job alike) and the shape says how it runs over batches and placements.
Standard deviations and means are learned from public tables; the shapes are laid down here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.residual_terms import (
    OF_MACHINE,
    SHAPES,
    Scopes,
    ShapeColumns,
    Term,
    diagonal,
)
from perfmodel.placement.calibration.script_gap import ScriptGap, fitted_gap
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.fitted import fitted


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What no field says of a step: what its cell has to itself, and each measurement.

    Parameters
    ----------
    compute : float
        Standard deviation, over cells, of the logarithm of a step without exposed communication.
    sync, sync_share : float
        Of the factor by which communication lengthens it: a floor, and a multiple of the exposed
        share of the step.
    misplaced : float
        Of the share of a step that its log counts as the other part: both parts are off by it,
        the whole step is not.
    repeat : float
        Of a step that is measured again.
    freedom : float
        Degrees of freedom of Student's distribution of cells: how often one is unlike all others.
    inflation : float
        Factor of all standard deviations that are given out, learned on held-out steps.
    """

    compute: float
    sync: float
    sync_share: float
    misplaced: float = 0.0
    repeat: float = 0.03
    freedom: float = 4.0
    inflation: float = 1.0

    def variances(self, exposed_share: FloatArray) -> FloatArray:
        """Return what cells vary in both channels but for what is misplaced, shape (2, rows)."""
        compute = np.full(exposed_share.shape, self.compute**2)
        return np.stack([compute, self.sync**2 + (self.sync_share * exposed_share) ** 2])


@dataclass(frozen=True, kw_only=True)
class ResidualPrior:
    """What is known of residuals before a job is observed.

    Parameters
    ----------
    means : mapping of str to float
        Of each field by its lower-case name, of steps that are the ones that were predicted;
        ``"alone"`` is added to ``spread`` of one rank, ``"one_host"`` to ``communication`` within a
        host.
    sds : mapping of str to float
        Standard deviation of each term by its name.
    freedom : float
        Degrees of freedom of Student's distribution of a job's levels on one machine or fabric:
        how often a job is unlike all others there; infinite for a Gaussian.
    bare : float
        Factor of all standard deviations for jobs whose steps are the ones that were predicted:
        nothing but the predictor errs about them. The others are scripts, that load, log and wait.
    gap : ScriptGap or None
        How much longer the steps are expected to take than predicted; None: as long.
    """

    means: Mapping[str, float]
    sds: Mapping[str, float]
    noise: Noise
    freedom: float = math.inf
    bare: float = 1.0
    gap: ScriptGap | None = None

    @cached_property
    def of_bare_steps(self) -> Self:
        """What is known of jobs that do nothing but what was predicted."""
        sds = {name: self.bare * sd for name, sd in self.sds.items()}
        return replace(self, sds=sds, bare=1.0)

    def of_scripts(self, gap: ScriptGap | None = None) -> Self:
        """Return what is known of jobs that load, log and wait besides.

        Parameters
        ----------
        gap : ScriptGap or None
            None: the fitted one.
        """
        return replace(self, bare=1.0, gap=gap or fitted_gap())

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Read what ``perfmodel fit-placement`` wrote.

        Raises
        ------
        DamagedArtifactError
            It is something else.
        """
        try:
            sds = {str(n): float(v) for n, v in plain["sds"].items()}
            for name in sds:
                Term.parse(name)
            means = {n: float(v) for n, v in plain["means"].items()}
            freedom = float(plain.get("freedom", math.inf))
            noise, bare = Noise(**plain["noise"]), float(plain.get("bare", 1.0))
            return cls(means=means, sds=sds, noise=noise, freedom=freedom, bare=bare)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedArtifactError(f"This is no prior of residuals: {error!r}.") from error

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        noise = {name: getattr(self.noise, name) for name in Noise.__dataclass_fields__}
        tails = {} if math.isinf(self.freedom) else {"freedom": self.freedom}
        plain = {"means": dict(self.means), "sds": dict(self.sds), "noise": noise, **tails}
        return plain if self.bare == 1 else {**plain, "bare": self.bare}

    @cached_property
    def variances(self) -> tuple[tuple[Term, float], ...]:
        """The terms, and the variance of each."""
        return tuple((Term.parse(name), sd**2) for name, sd in self.sds.items())

    def mean(self, cells: StepCells) -> FloatArray:
        """Return the mean residual of steps, shape (fields, rows)."""
        neutral = self.neutral(cells)
        return neutral if self.gap is None else neutral + self.gap.mean(cells)

    def neutral(self, cells: StepCells) -> FloatArray:
        """Return the residual of steps that take as long as predicted, shape (fields, rows)."""
        levels = [self.means.get(field.name.lower(), 0.0) for field in Field]
        mean = np.repeat(np.array(levels)[:, None], len(cells), axis=1)
        mean[Field.SPREAD] += self.means.get("alone", 0.0) * (cells.ranks == 1)
        mean[Field.COMMUNICATION] += self.means.get("one_host", 0.0) * (cells.hosts == 1)
        return mean

    def covariance(self, a: StepCells, b: StepCells) -> FloatArray:
        """Return the covariance of the residuals of two sets of steps.

        Returns
        -------
        ndarray, shape (fields, rows of a, rows of b)
        """
        (few_a, rows), (few_b, columns) = ShapeColumns.distinct(a), ShapeColumns.distinct(b)
        shapes = {s: SHAPES[s](few_a, few_b) for s in {Term.parse(name).shape for name in self.sds}}
        scopes = Scopes.of(a, b)
        sums: dict[tuple[Field, str], FloatArray] = {}
        for name, sd in self.sds.items():
            term = Term.parse(name)
            scope = scopes.meant(term.scope)
            if scope is not None:
                key, part = (term.field, scope), sd**2 * shapes[term.shape]
                sums[key] = sums[key] + part if key in sums else part
        total = np.zeros((len(Field), len(a), len(b)))
        every = np.ix_(rows, columns)
        for (one, scope), shape in sums.items():
            total[one] += scopes.times(shape[every], one in OF_MACHINE, scope)
        return total

    def variance(self, cells: StepCells) -> FloatArray:
        """Return the prior variance of each residual, shape (fields, rows)."""
        columns = ShapeColumns.of(cells)
        total = np.zeros((len(Field), len(cells)))
        for name, sd in self.sds.items():
            term = Term.parse(name)
            counts = cells.guessed if term.scope.startswith("guess") else 1.0
            total[term.field] += sd**2 * diagonal(term.shape, columns) * counts
        return total


@cache
def fitted_prior() -> ResidualPrior:
    """Return the prior that comes with the package.

    Raises
    ------
    DamagedArtifactError
        Its file cannot be read.
    """
    return ResidualPrior.from_dict(fitted("calibration"))

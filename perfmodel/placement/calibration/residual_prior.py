r"""How alike the residuals of two steps are before either is observed.

Each field of the residual is a Gaussian process over steps. Its covariance is a sum of terms,

.. math:: K_f(a, b) = \sum_t \sigma_t^2\ scope_t(a, b)\ batch_t(a, b)\ placement_t(a, b),

written ``"device.batch_curve.own"``. The scope says for whom a term is common: the same machine,
link within a host or fabric, as :data:`PLACES` says, ``place``; the same ``job``; both, ``own``;
every step, ``all``, without which what all steps share would be counted of the machine and of the
job alike. The shapes say how it runs over batches and over placements; most terms have one of them.
Standard deviations and means are learned from public tables; the shapes are laid down here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray, Numbers
from perfmodel.placement.calibration.script_gap import ScriptGap, fitted_gap
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.fitted import fitted
from perfmodel.placement.fitted.forms import read_constants

#: What the place of each field is: the machine, the link within a host, or the fabric.
PLACES = {
    **dict.fromkeys(Field, "machine"), Field.WITHIN: "link",
    **dict.fromkeys((Field.BETWEEN, Field.TAIL, Field.WINDOW), "fabric"),
}  # fmt: skip
#: Positions of the scopes; those of guesses are the same among jobs known by a name alone.
SCOPES = ("all", "place", "job", "own")
ALL, PLACE, JOB, OWN = range(4)
#: Shapes over batches and over placements, in the order of their functions; "" is 1.
BATCH_SHAPES = ("", "batch_slope", "batch_curve", "batch")
PLACEMENT_SHAPES = (
    "", "alone", "host_slope", "share_slope", "rank_slope", "hosts", "placement", "setting",
)  # fmt: skip
#: What the others are called, and those that run over both.
_OTHER_SHAPES = {
    "level": ("", ""),
    "share_slope_of_batch": ("batch_curve", "share_slope"),
    "placement_of_batch": ("batch_curve", "placement"),
}
#: Batch at which slopes over the batch turn, and lengths over which curves change, in logs.
_BATCH_AT = 64.0
_BATCH_LENGTH = 1.0
_PLACEMENT_LENGTH = 0.7
#: Two hosts differ from three more than three from four: hosts count as 2 / hosts.
_HOST_LENGTH = 0.5
#: "hosts" and "placement" by squares of how far share, ranks and 2 / hosts are apart.
_CURVES = -0.5 * np.array([[0, 0, _HOST_LENGTH**-2], [_PLACEMENT_LENGTH**-2] * 3])
#: Logarithms of batches that differ by less are those of one batch.
_EQUAL = 1e-9


def batch_shapes(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the shapes of pairs of batches, shape (shapes, pairs)."""
    x, y = np.log(a / _BATCH_AT), np.log(b / _BATCH_AT)
    off = x - y
    curve = np.exp(-0.5 * (off / _BATCH_LENGTH) ** 2)
    return np.stack([np.ones(off.shape), x * y, curve, np.abs(off) < _EQUAL])


def placement_features(
    ranks: Numbers, hosts: Numbers, largest_share: Numbers, of: Any = np
) -> FloatArray:
    """Return what shapes of placements are made of: slopes, then coordinates of the curves.

    Parameters
    ----------
    of : module or type
        NumPy for columns, :class:`.PlainNumbers` for one.
    """
    logs = of.log(hosts), of.log(largest_share), of.log(ranks)
    return np.array([ranks / ranks, ranks == 1, *logs, 2.0 / hosts], dtype=np.float64)


def placement_shapes(a: FloatArray, b: FloatArray, same_setting: FloatArray) -> FloatArray:
    """Return the shapes of pairs of placements, shape (shapes, pairs).

    Parameters
    ----------
    a, b : ndarray, shape (features, pairs)
        From :func:`placement_features`; one of them may be of one placement.
    same_setting : ndarray, shape (1, pairs)
        Whether the limits or neighbours of pairs are the same; plain ones have none.
    """
    # By ``dot``, which takes half as long as ``@`` where arrays are small.
    curves = np.exp(_CURVES.dot((a[-3:] - b[-3:]) ** 2))
    found = np.concatenate([a[:-1] * b[:-1], curves, same_setting])
    found[4] *= found[5]
    return found


class Term(NamedTuple):
    """One term of a covariance, as positions of its field, scope and shapes.

    Parameters
    ----------
    of_guesses : int
        1: among jobs that are known by a name alone.
    """

    of_guesses: int
    field: Field
    scope: int
    batch: int
    placement: int

    @classmethod
    @cache
    def parse(cls, name: str) -> Self:
        """Read a term from its name.

        Raises
        ------
        DamagedArtifactError
            No such field, shape or scope.
        """
        try:
            field, shape, scope = name.split(".")
            one = (shape, "") if shape in BATCH_SHAPES else ("", shape)
            batch, placement = _OTHER_SHAPES.get(shape, one)
            return cls(
                int(scope.startswith("guess_")),
                Field[field.upper()],
                SCOPES.index(scope.removeprefix("guess_")),
                BATCH_SHAPES.index(batch),
                PLACEMENT_SHAPES.index(placement),
            )
        except (ValueError, KeyError) as error:
            raise DamagedArtifactError(
                f"The prior of residuals has an unknown term {name!r}."
            ) from error


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
        ``"alone"`` is added to ``spread`` of one rank.
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
    #: Of all terms: (of any job, of guesses) x fields x scopes x batches x placements.
    variances: FloatArray = field(init=False, repr=False, compare=False)
    #: Of the levels of a job on one machine or fabric, shape (fields, 1).
    own_levels: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shape = (2, len(Field), len(SCOPES), len(BATCH_SHAPES), len(PLACEMENT_SHAPES))
        variances = np.zeros(shape)
        for name, sd in self.sds.items():
            variances[Term.parse(name)] += sd**2
        vars(self).update(variances=variances, own_levels=variances[0, :, OWN, 0, :1])

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

    def mean(self, cells: StepCells) -> FloatArray:
        """Return the mean residual of steps, shape (fields, rows)."""
        neutral = self.neutral(cells)
        return neutral if self.gap is None else neutral + self.gap.mean(cells)

    def neutral(self, cells: StepCells) -> FloatArray:
        """Return the residual of steps that take as long as predicted, shape (fields, rows)."""
        levels = [self.means.get(one.name.lower(), 0.0) for one in Field]
        mean = np.repeat(np.array(levels)[:, None], len(cells), axis=1)
        mean[Field.SPREAD] += self.means.get("alone", 0.0) * (cells.ranks == 1)
        return mean

    def variance(self, cells: StepCells) -> FloatArray:
        """Return the prior variance of each residual, shape (fields, rows)."""
        here = placement_features(cells.ranks, cells.hosts, cells.largest_share)
        placements = placement_shapes(here, here, (cells.setting != "")[None])
        batches = batch_shapes(cells.batch_size, cells.batch_size)
        total = np.zeros((len(Field), len(cells)))
        for kind, counts in enumerate((1.0, cells.guessed)):
            each = self.variances[kind].sum(axis=1)
            for one, batch in np.argwhere(each.any(axis=2)):
                total[one] += each[one, batch] @ placements * batches[batch] * counts
        return total


@cache
def fitted_prior() -> ResidualPrior:
    """Return the prior that comes with the package."""
    return read_constants(ResidualPrior, fitted("calibration"))

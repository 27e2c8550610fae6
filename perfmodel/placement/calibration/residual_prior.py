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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import DamagedArtifactError
from perfmodel.placement.calibration.script_gap import ScriptGap, fitted_gap
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.fitted import fitted

FloatArray = npt.NDArray[np.float64]

#: Batch at which slopes over the batch turn, and lengths over which curves change, in logs.
_BATCH_AT = 64.0
_BATCH_LENGTH = 1.0
_PLACEMENT_LENGTH = 0.7
#: Two hosts differ from three more than three from four: hosts count as 2 / hosts.
_HOST_LENGTH = 0.5
#: Logarithms of batches that differ by less are those of one batch.
_EQUAL = 1e-9


@dataclass(frozen=True, kw_only=True)
class ShapeColumns:
    """Columns of steps that shapes are made of."""

    batch: FloatArray
    ranks: FloatArray
    share: FloatArray
    hosts: FloatArray
    spread: FloatArray
    alone: FloatArray
    setting: npt.NDArray[np.str_]

    @classmethod
    def of(cls, cells: StepCells) -> Self:
        """Return the columns of steps."""
        return cls.of_numbers(
            cells.batch_size, cells.ranks, cells.largest_share, cells.hosts, cells.setting
        )

    @classmethod
    def of_numbers(
        cls,
        batch_size: FloatArray,
        ranks: FloatArray,
        largest_share: FloatArray,
        hosts: FloatArray,
        setting: npt.NDArray[np.str_],
    ) -> Self:
        """Return the columns of what stands in columns of :class:`.StepCells`."""
        return cls(
            batch=np.log(batch_size / _BATCH_AT),
            ranks=np.log(ranks),
            share=np.log(largest_share),
            hosts=np.log(hosts),
            spread=2.0 / hosts,
            alone=(ranks == 1).astype(np.float64),
            setting=setting,
        )

    @classmethod
    def distinct(cls, cells: StepCells) -> tuple[Self, npt.NDArray[np.int64]]:
        """Return each combination once, and which of them every row has."""
        settings, setting = np.unique(cells.setting, return_inverse=True)
        keys = np.stack(
            [cells.batch_size, cells.ranks, cells.largest_share, cells.hosts, setting], axis=1
        )
        few, rows = np.unique(keys, axis=0, return_inverse=True)
        batch, ranks, share, hosts = few[:, :4].T
        columns = cls.of_numbers(batch, ranks, share, hosts, settings[few[:, 4].astype(np.int64)])
        return columns, rows.reshape(-1)


def _product(a: FloatArray, b: FloatArray) -> FloatArray:
    return a[:, None] * b[None, :]


def _near(a: FloatArray, b: FloatArray, length: float) -> FloatArray:
    return np.asarray(np.exp(-0.5 * ((a[:, None] - b[None, :]) / length) ** 2))


def _batch_curve(a: ShapeColumns, b: ShapeColumns) -> FloatArray:
    return _near(a.batch, b.batch, _BATCH_LENGTH)


def _same_batch(a: ShapeColumns, b: ShapeColumns) -> FloatArray:
    return np.asarray(np.abs(a.batch[:, None] - b.batch[None, :]) < _EQUAL, dtype=np.float64)


def _same_kind_of_hosts(a: ShapeColumns, b: ShapeColumns) -> FloatArray:
    return _near(a.spread, b.spread, _HOST_LENGTH)


def _placement_curve(a: ShapeColumns, b: ShapeColumns) -> FloatArray:
    shares = _near(a.share, b.share, _PLACEMENT_LENGTH)
    ranks = _near(a.ranks, b.ranks, _PLACEMENT_LENGTH)
    return shares * ranks * _near(a.spread, b.spread, _PLACEMENT_LENGTH)


def _same_setting(a: ShapeColumns, b: ShapeColumns) -> FloatArray:
    """Say which steps have the same limits or neighbours; plain ones have none."""
    return np.asarray(_same(a.setting, b.setting) * (a.setting != "")[:, None])


Shape = Callable[[ShapeColumns, ShapeColumns], FloatArray]

#: How a term runs over batches and placements, by name.
SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "level": lambda a, b: np.ones((len(a.batch), len(b.batch))),
        "batch_slope": lambda a, b: _product(a.batch, b.batch),
        "batch_curve": _batch_curve,
        "batch": _same_batch,
        "alone": lambda a, b: _product(a.alone, b.alone),
        "one_host": lambda a, b: _product(a.hosts == 0, b.hosts == 0) * 1.0,
        "share_slope": lambda a, b: _product(a.share, b.share),
        "host_slope": lambda a, b: _product(a.hosts, b.hosts),
        "share_slope_of_batch": lambda a, b: _product(a.share, b.share) * _batch_curve(a, b),
        "hosts": _same_kind_of_hosts,
        "rank_slope": lambda a, b: _product(a.ranks, b.ranks) * _same_kind_of_hosts(a, b),
        "placement": _placement_curve,
        "setting": _same_setting,
        "placement_of_batch": lambda a, b: _placement_curve(a, b) * _batch_curve(a, b),
    }
)


def log_batch(batch_size: float) -> float:
    """Return the logarithm of a batch that its shapes are made of."""
    return math.log(batch_size / _BATCH_AT)


def curve_matrix(b: ShapeColumns) -> FloatArray:
    """Return what makes the curves over placements of features of one step.

    Returns
    -------
    ndarray, shape (7, 2 x rows of b)
        ``exp(f @ matrix)`` is "hosts", then "placement", for the features f of a step: 1, its
        spread over hosts (2 / hosts), logarithms of its largest share and of its ranks, each but
        the first followed by its square.
    """
    nothing = np.zeros(len(b.ranks))
    # -(x - y)^2 / (2 l^2) in powers of x.
    by_hosts = [y / _HOST_LENGTH**2 for y in (-0.5 * b.spread**2, b.spread, nothing - 0.5)]
    each = [
        [y / _PLACEMENT_LENGTH**2 for y in (-0.5 * one**2, one, nothing - 0.5)]
        for one in (b.spread, b.share, b.ranks)
    ]
    level = np.sum([one[0] for one in each], axis=0)
    return np.concatenate(
        [
            np.stack([*by_hosts, *[nothing] * 4]),
            np.stack([level, *(row for one in each for row in one[1:])]),
        ],
        axis=1,
    )


#: The last three are ``place``, ``job`` and ``own`` among jobs that are known by a name alone.
_SCOPES = ("all", "place", "job", "own", "guess_place", "guess_job", "guess_own")

#: Fields that belong to the machine; the others belong to the fabric.
OF_MACHINE = frozenset({Field.DEVICE, Field.HOST, Field.SPREAD, Field.FIXED})


@dataclass(frozen=True, order=True)
class Term:
    """One term of a covariance: field, shape and scope, written ``"device.level.own"``."""

    field: Field
    shape: str
    scope: str

    @classmethod
    @cache
    def parse(cls, name: str) -> Self:
        """Read a term from its name.

        Raises
        ------
        DamagedArtifactError
            No such field, shape or scope.
        """
        field, _, rest = name.partition(".")
        shape, _, scope = rest.partition(".")
        if shape not in SHAPES or scope not in _SCOPES:
            raise DamagedArtifactError(f"The prior of residuals has an unknown term {name!r}.")
        return cls(field=Field[field.upper()], shape=shape, scope=scope)


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
        scopes = _Scopes.of(a, b)
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
            total[term.field] += sd**2 * _diagonal(term.shape, columns) * counts
        return total


def _diagonal(shape: str, columns: ShapeColumns) -> FloatArray:
    """Return a shape of steps with themselves; curves are 1 there."""
    squares = {
        "batch_slope": columns.batch, "alone": columns.alone, "share_slope": columns.share,
        "one_host": (columns.hosts == 0).astype(np.float64), "host_slope": columns.hosts,
        "share_slope_of_batch": columns.share, "rank_slope": columns.ranks,
        "setting": (columns.setting != "").astype(np.float64),
    }  # fmt: skip
    value = squares.get(shape)
    return np.ones(len(columns.batch)) if value is None else value**2


@dataclass(frozen=True, kw_only=True)
class _Scopes:
    """For which of two sets of steps a term is common.

    Parameters
    ----------
    job, guess : ndarray, shape (rows of a, rows of b), or None
        Same job, and both guessed; None where all are.
    place : mapping of bool to ndarray
        Same machine, and same fabric.
    guessed : bool
        Whether any are.
    """

    job: FloatArray | None
    guess: FloatArray | None
    place: Mapping[bool, FloatArray]
    guessed: bool

    @classmethod
    def of(cls, a: StepCells, b: StepCells) -> Self:
        job = _same(a.job, b.job)
        guess = np.outer(a.guessed, b.guessed).astype(np.float64)
        return cls(
            job=None if job.all() else job,
            guess=None if guess.all() else guess,
            place={True: _same(a.machine, b.machine), False: _same(a.fabric, b.fabric)},
            guessed=bool(guess.any()),
        )

    def meant(self, scope: str) -> str | None:
        """Return a scope that is the same for these steps, and simpler; None where it is nobody's.

        Examples
        --------
        Among steps of one job ``job`` is ``all``, and ``own`` is ``place``.
        """
        if scope.startswith("guess_"):
            if not self.guessed:
                return None
            scope = scope.removeprefix("guess_") if self.guess is None else scope
        if self.job is None:
            scope = scope.replace("own", "place").replace("job", "all")
        return scope

    def times(self, shape: FloatArray, of_machine: bool, scope: str) -> FloatArray:
        """Return a shape where the scope is common, else 0."""
        guess, _, whose = scope.rpartition("_")
        if whose in ("place", "own"):
            shape = shape * self.place[of_machine]
        if whose in ("job", "own") and self.job is not None:
            shape = shape * self.job
        return shape * self.guess if guess and self.guess is not None else shape


def basis(names: tuple[str, ...], a: StepCells, b: StepCells) -> dict[str, FloatArray]:
    """Return scope times shape of each term, which no standard deviation changes."""
    scopes, (one, other) = _Scopes.of(a, b), (ShapeColumns.of(a), ShapeColumns.of(b))
    terms = {name: Term.parse(name) for name in names}
    shapes = {s: SHAPES[s](one, other) for s in {term.shape for term in terms.values()}}
    return {
        name: scopes.times(shapes[term.shape], term.field in OF_MACHINE, term.scope)
        if not term.scope.startswith("guess") or scopes.guessed
        else np.zeros(shapes[term.shape].shape)
        for name, term in terms.items()
    }


def weighted(terms: Mapping[str, FloatArray], sds: Mapping[str, float]) -> FloatArray:
    """Return the covariance of every field from the terms and their standard deviations."""
    first = next(iter(terms.values()))
    total = np.zeros((len(Field), *first.shape))
    for name, term in terms.items():
        total[Term.parse(name).field] += sds[name] ** 2 * term
    return total


def _same(a: npt.NDArray[np.str_], b: npt.NDArray[np.str_]) -> FloatArray:
    names = {name: code for code, name in enumerate({*a.tolist(), *b.tolist()})}
    one = np.array([names[name] for name in a.tolist()])
    other = np.array([names[name] for name in b.tolist()])
    return np.asarray(one[:, None] == other[None, :], dtype=np.float64)


@cache
def fitted_prior() -> ResidualPrior:
    """Return the prior that comes with the package.

    Raises
    ------
    DamagedArtifactError
        Its file cannot be read.
    """
    return ResidualPrior.from_dict(fitted("calibration"))

"""Terms of the prior of residuals: of which field, in which shape, common to whom.

Shapes say how a term runs over batches and placements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field

#: Batch at which slopes over the batch turn, and lengths over which curves change, in logs.
_BATCH_AT = 64.0
_BATCH_LENGTH = 1.0
_PLACEMENT_LENGTH = 0.7
#: Two hosts differ from three more than three from four: hosts count as 2 / hosts.
_HOST_LENGTH = 0.5
#: Logarithms of batches that differ by less are those of one batch.
_EQUAL = 1e-9
#: Shapes over batches that :func:`batch_shapes` returns.
BATCH_SHAPES = ("", "batch_slope", "batch_curve", "batch")


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
    return np.asarray(same_words(a.setting, b.setting) * (a.setting != "")[:, None])


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


def batch_shapes(a: float, b: FloatArray) -> FloatArray:
    """Return the shapes over batches of one batch with some, both as :func:`log_batch` says.

    Returns
    -------
    ndarray, shape (shapes, batches)
        In the order of :data:`BATCH_SHAPES`; the first is 1.
    """
    one = np.array([a])
    same = np.abs(one - b) < _EQUAL
    return np.stack([np.ones(len(b)), a * b, _near(one, b, _BATCH_LENGTH)[0], same])


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


def diagonal(shape: str, columns: ShapeColumns) -> FloatArray:
    """Return a shape of steps with themselves; curves are 1 there."""
    squares = {
        "batch_slope": columns.batch, "alone": columns.alone, "share_slope": columns.share,
        "one_host": (columns.hosts == 0).astype(np.float64), "host_slope": columns.hosts,
        "share_slope_of_batch": columns.share, "rank_slope": columns.ranks,
        "setting": (columns.setting != "").astype(np.float64),
    }  # fmt: skip
    value = squares.get(shape)
    return np.ones(len(columns.batch)) if value is None else value**2


def same_words(a: npt.NDArray[np.str_], b: npt.NDArray[np.str_]) -> FloatArray:
    """Return 1 where words of two columns are the same, else 0, shape (a, b)."""
    names = {name: code for code, name in enumerate({*a.tolist(), *b.tolist()})}
    one = np.array([names[name] for name in a.tolist()])
    other = np.array([names[name] for name in b.tolist()])
    return np.asarray(one[:, None] == other[None, :], dtype=np.float64)


#: The last three are ``place``, ``job`` and ``own`` among jobs that are known by a name alone.
_SCOPES = ("all", "place", "job", "own", "guess_place", "guess_job", "guess_own")

#: Fields that belong to the machine; the others belong to the fabric.
OF_MACHINE = frozenset({Field.DEVICE, Field.HOST, Field.FEED, Field.SPREAD, Field.FIXED})


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
class Scopes:
    """For which of two sets of steps a term is common.

    Parameters
    ----------
    job, guess : ndarray, shape (rows of a, rows of b), or None
        Same job, and both guessed; None where all are.
    place : mapping of bool to ndarray
        Same machine, and same fabric.
    """

    job: FloatArray | None
    guess: FloatArray | None
    place: Mapping[bool, FloatArray]
    guessed: bool

    @classmethod
    def of(cls, a: StepCells, b: StepCells) -> Self:
        """Return for whom terms are common among two sets of steps."""
        job = same_words(a.job, b.job)
        guess = np.outer(a.guessed, b.guessed).astype(np.float64)
        return cls(
            job=None if job.all() else job,
            guess=None if guess.all() else guess,
            place={True: same_words(a.machine, b.machine), False: same_words(a.fabric, b.fabric)},
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
    scopes, (one, other) = Scopes.of(a, b), (ShapeColumns.of(a), ShapeColumns.of(b))
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

"""Covariances of many steps with the observed rows of the calibration that each of them rests on.

The same sums as :meth:`.ResidualPrior.covariance`, evaluated for pairs: a row of some job with each
observed row of that job, many jobs at a time. Every shape is one of placements times one of
batches, so that each is worked out once for what placements and what batches there are, and looked
up for the pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.residual_prior import ResidualPrior
from perfmodel.placement.calibration.residual_terms import OF_MACHINE, SHAPES, ShapeColumns
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field

Codes = npt.NDArray[np.int64]
Placement = tuple[float, float, float, str]
T = TypeVar("T", bound=Hashable)

#: Columns that say what rows belong to.
_WORDS = ("job", "machine", "fabric")
#: Those that belong to a placement.
_PLACES = ("machine", "fabric")

#: Shapes that run over batches, and what else those are that run over placements as well.
_OF_BATCHES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "level": ("", ""),
        "batch_slope": ("", "batch_slope"),
        "batch_curve": ("", "batch_curve"),
        "batch": ("", "batch"),
        "share_slope_of_batch": ("share_slope", "batch_curve"),
        "placement_of_batch": ("placement", "batch_curve"),
    }
)
#: What scopes mean among steps of one job.
_SIMPLER = {"job": "all", "own": "place", "guess_job": "guess_all", "guess_own": "guess_place"}
#: Sums of variances of shapes of placements, by shape of batches, scope and field.
_Plan = Mapping[Field, Mapping[str, Mapping[str, Mapping[str, float]]]]


@dataclass(frozen=True, kw_only=True)
class ObservedColumns:
    """Observed rows of a calibration, told apart by what others may share with them.

    Parameters
    ----------
    words : mapping of str to (list of str, ndarray)
        For ``job``, ``machine`` and ``fabric`` the words that occur, and which each row has.
    placements, batches
        The same for ranks, largest share, hosts and setting, and for batches.
    """

    words: Mapping[str, tuple[list[str], Codes]]
    placements: tuple[list[Placement], Codes]
    batches: tuple[list[float], Codes]
    micro_batches: FloatArray
    guessed: FloatArray
    cells: frozenset[tuple[object, ...]]

    @property
    def shapes(self) -> ShapeColumns:
        """What the shapes of each row are made of, but for its batch."""
        known, rows = self.placements
        return _of_placements([known[row] for row in rows.tolist()])

    def which_are(self, name: str, word: str) -> FloatArray:
        """Return 1 for each row that has a word, else 0."""
        known, rows = self.words[name]
        code = known.index(word) if word in known else -1
        return np.asarray(rows == code, dtype=np.float64)

    @classmethod
    def of(cls, cells: StepCells) -> Self:
        """Tell the rows of some steps apart."""
        return cls(
            words={name: _distinct(getattr(cells, name).tolist()) for name in _WORDS},
            placements=_distinct(_placements(cells)),
            batches=_distinct(cells.batch_size.tolist()),
            micro_batches=cells.micro_batches,
            guessed=cells.guessed.astype(np.float64),
            cells=frozenset(cells.identities()),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairedRows:
    """Steps and the observed rows of their calibrations, pair by pair.

    Parameters
    ----------
    same : mapping of str to ndarray, shape (rows, observed), or None
        Which pairs are of one job, on one machine and on one fabric; None where all are.
    guessed : ndarray or None
        Which are both guessed; None where none is.
    cells : tuple of two ndarrays
        Rows, and observed rows, that are of the same cell.
    """

    same: Mapping[str, FloatArray | None]
    guessed: FloatArray | None
    cells: tuple[Codes, Codes]
    _placement: tuple[ShapeColumns, ShapeColumns, Codes]
    _batch: tuple[ShapeColumns, ShapeColumns, Codes]

    @classmethod
    def of(cls, cells: StepCells, which: Codes, observed: Sequence[ObservedColumns]) -> Self:
        """Pair rows.

        Parameters
        ----------
        which : ndarray of int
            Which of the observed each row belongs to.
        observed : sequence of ObservedColumns
            Of equally many rows each.
        """
        _, first, again = np.unique(cells.place, return_index=True, return_inverse=True)
        few = cells.take(first)
        of_few = {name: getattr(few, name).tolist() for name in _PLACES}
        words = {name: (one, again) for name, one in of_few.items()}
        words["job"] = _distinct(cells.job.tolist())
        same = {name: _same_words(words[name], which, observed, name) for name in _WORDS}
        asked, rows = _distinct(_placements(few))
        rows = rows[again]
        known, columns = _joined([one.placements for one in observed])
        batches, at = _distinct(cells.batch_size.tolist())
        seen, on = _joined([one.batches for one in observed])
        guessed = np.stack([one.guessed for one in observed])[which] * cells.guessed[:, None]
        at_placements = rows[:, None] * len(known) + columns[which]
        at_batches = at[:, None] * len(seen) + on[which]
        alike = _equal(asked, known).ravel()[at_placements]
        alike &= _equal(batches, seen).ravel()[at_batches]
        for one in same.values():
            if one is not None:
                alike &= one > 0
        row, column = np.nonzero(alike)
        micro = np.stack([one.micro_batches for one in observed])[which[row], column]
        is_cell = micro == cells.micro_batches[row]
        return cls(
            same=same,
            guessed=guessed if guessed.any() else None,
            cells=(row[is_cell], column[is_cell]),
            _placement=(_of_placements(asked), _of_placements(known), at_placements),
            _batch=(_of_batches(batches), _of_batches(seen), at_batches),
        )

    def covariance(self, prior: ResidualPrior) -> FloatArray:
        """Return the covariance of the residuals of all pairs, shape (fields, rows, observed)."""
        plan = _plan(prior, guessed=self.guessed is not None, one_job=self.same["job"] is None)
        over_placements = _LookedUp(*self._placement)
        over_batches = _LookedUp(*self._batch)
        total = np.zeros((len(Field), *self._placement[2].shape))
        for one, scopes in plan.items():
            for scope, by_batch in scopes.items():
                part: FloatArray | float = 0.0
                for batch, shapes in by_batch.items():
                    found = over_placements.sum(shapes)
                    part = part + (found * over_batches.shape(batch) if batch else found)
                total[one] += self.times(part, scope, one)
        return total

    def times(self, values: FloatArray | float, scope: str, one: Field) -> FloatArray | float:
        """Return values where a scope is common to the pair, else 0."""
        guess, _, whose = scope.rpartition("_")
        if whose in ("place", "own"):
            place = self.same["machine" if one in OF_MACHINE else "fabric"]
            values = values if place is None else values * place
        if whose in ("job", "own") and self.same["job"] is not None:
            values = values * self.same["job"]
        return values * self.guessed if guess and self.guessed is not None else values


class _LookedUp:
    """Shapes of what there is, looked up for pairs; each once."""

    def __init__(self, a: ShapeColumns, b: ShapeColumns, at: Codes) -> None:
        self._a, self._b, self._at = a, b, at
        self._tables: dict[str, FloatArray] = {}
        self._found: dict[object, FloatArray] = {}

    def _table(self, shape: str) -> FloatArray:
        if shape not in self._tables:
            self._tables[shape] = SHAPES[shape](self._a, self._b)
        return self._tables[shape]

    def shape(self, name: str) -> FloatArray:
        """Return one shape for all pairs."""
        if name not in self._found:
            self._found[name] = self._table(name).ravel()[self._at]
        return self._found[name]

    def sum(self, shapes: Mapping[str, float]) -> FloatArray | float:
        """Return the sum of shapes times their variances; of the empty one alone a number."""
        constant = shapes.get("", 0.0)
        tables = [variance * self._table(name) for name, variance in shapes.items() if name]
        if not tables:
            return constant
        table: FloatArray = np.sum(tables, axis=0) + constant
        return table.ravel()[self._at]


def _plan(prior: ResidualPrior, *, guessed: bool, one_job: bool) -> _Plan:
    """Return the terms of a prior that count, with those together that mean the same.

    Parameters
    ----------
    guessed : bool
        Some pairs are of jobs that are known by a name alone.
    one_job : bool
        All pairs are of one job each: what belongs to it they all share.
    """
    found: dict[Field, dict[str, dict[str, dict[str, float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(float)))
    )
    for term, variance in prior.variances:
        if guessed or not term.scope.startswith("guess_"):
            placement, batch = factors(term.shape)
            scope = _SIMPLER.get(term.scope, term.scope) if one_job else term.scope
            found[term.field][scope][batch][placement] += variance
    return found


def factors(shape: str) -> tuple[str, str]:
    """Return the shapes of placements and of batches whose product a shape is; "" is 1."""
    return _OF_BATCHES.get(shape, (shape, ""))


def _placements(cells: StepCells) -> list[Placement]:
    columns = (cells.ranks, cells.largest_share, cells.hosts, cells.setting)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _of_placements(placements: Sequence[Placement]) -> ShapeColumns:
    ranks, share, hosts, setting = zip(*placements, strict=True)
    return ShapeColumns.of_numbers(
        np.ones(len(ranks)), np.array(ranks), np.array(share), np.array(hosts), np.array(setting)
    )


def _of_batches(batches: Sequence[float]) -> ShapeColumns:
    one = np.ones(len(batches))
    return ShapeColumns.of_numbers(np.array(batches), one, one, one, np.full(len(batches), ""))


def _distinct(values: Sequence[T]) -> tuple[list[T], Codes]:
    codes: dict[T, int] = {}
    rows = [codes.setdefault(one, len(codes)) for one in values]
    return list(codes), np.array(rows, dtype=np.int64)


def _joined(
    parts: Sequence[tuple[list[T], Codes]],
) -> tuple[list[T], Codes]:
    """Return what several have, each once, and what each row of each of them has."""
    codes: dict[T, int] = {}
    rows = [
        np.array([codes.setdefault(one, len(codes)) for one in values], dtype=np.int64)[at]
        for values, at in parts
    ]
    return list(codes), np.stack(rows)


def _same_words(
    asked: tuple[list[str], Codes], which: Codes, observed: Sequence[ObservedColumns], name: str
) -> FloatArray | None:
    """Return which pairs have the same word; None where all have.

    Parameters
    ----------
    asked : tuple of list of str and ndarray
        Words, and which of them each step has.
    """
    known, columns = _joined([one.words[name] for one in observed])
    codes = {word: code for code, word in enumerate(known)}
    words, rows = asked
    same = np.array([codes.get(word, -1) for word in words])[rows][:, None] == columns[which]
    return None if same.all() else same.astype(np.float64)


def _equal(a: Sequence[T], b: Sequence[T]) -> npt.NDArray[np.bool_]:
    """Return which of two lists without repetitions are equal, shape (a, b)."""
    found, codes = np.zeros((len(a), len(b)), dtype=np.bool_), {one: i for i, one in enumerate(b)}
    for row, one in enumerate(a):
        if one in codes:
            found[row, codes[one]] = True
    return found

"""Covariances of steps with the observed rows of the calibration that each of them rests on.

The sums of :mod:`.residual_prior`, for pairs: a row of some job with each observed row of that job,
many jobs at a time. Shapes are worked out once for what placements and what batches there are, and
looked up for the pairs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.residual_prior import (
    ALL,
    JOB,
    OWN,
    PLACE,
    PLACES,
    ResidualPrior,
    Term,
    batch_shapes,
    placement_features,
    placement_shapes,
)
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field

Codes = npt.NDArray[np.int64]
T = TypeVar("T", bound=Hashable)

#: What rows may have in common; a placement is ranks, hosts, largest share and setting.
_SHARED = ("job", "machine", "link", "fabric", "placement", "wiring", "batch")


@dataclass(frozen=True, kw_only=True)
class ObservedColumns:
    """Observed rows of a calibration, told apart by what others may share with them.

    Parameters
    ----------
    shared : mapping of str to (list, ndarray)
        For ``job``, ``machine``, ``link``, ``fabric``, ``placement``, ``wiring`` and ``batch`` what
        occurs, and which of it each row has.
    """

    shared: Mapping[str, tuple[list[Any], Codes]]
    micro_batches: FloatArray
    guessed: FloatArray
    cells: frozenset[tuple[object, ...]]

    @classmethod
    def of(cls, cells: StepCells) -> Self:
        """Tell the rows of some steps apart."""
        return cls(
            shared={name: _distinct(cells, name) for name in _SHARED},
            micro_batches=cells.micro_batches,
            guessed=cells.guessed.astype(np.float64),
            cells=frozenset(cells.identities()),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PairedRows:
    """Steps and the observed rows of their calibrations, pair by pair.

    Parameters
    ----------
    observed : sequence of ObservedColumns
        Of equally many rows each.
    same : mapping of str to ndarray, shape (rows, observed), or None
        Which pairs are of one job, on one machine, link and fabric; None where all are.
    guessed : ndarray or None
        Which are both guessed; None where none is.
    cells : tuple of two ndarrays
        Rows, and observed rows, that are of the same cell.
    placements, batches : tuple of two ndarrays
        Shapes of what there is, (shapes, combinations), and which combination each pair is.
    """

    observed: Sequence[ObservedColumns]
    same: Mapping[str, FloatArray | None]
    guessed: FloatArray | None
    cells: tuple[Codes, Codes]
    placements: tuple[FloatArray, Codes]
    batches: tuple[FloatArray, Codes]

    @classmethod
    def of(
        cls,
        cells: StepCells,
        observed: Sequence[ObservedColumns] = (),
        which: Codes | None = None,
    ) -> Self:
        """Pair rows.

        Parameters
        ----------
        observed : sequence of ObservedColumns
            Empty: the rows themselves.
        which : ndarray of int
            Which of the observed each row belongs to; None: the first.
        """
        observed = observed or [ObservedColumns.of(cells)]
        which = np.zeros(len(cells), dtype=np.int64) if which is None else which
        _, first, again = np.unique(cells.place, return_index=True, return_inverse=True)
        few = cells.take(first)
        same: dict[str, FloatArray | None] = {}
        combined: dict[str, tuple[list[Any], list[Any], Codes]] = {}
        is_cell = np.ones((len(cells), len(observed[0].guessed)), dtype=np.bool_)
        for name in _SHARED:
            if name in ("job", "batch"):
                asked, rows = _distinct(cells, name)
            else:
                asked, rows = _distinct(few, name)
                rows = rows[again]
            known, columns = _joined([one.shared[name] for one in observed])
            codes = {one: code for code, one in enumerate(known)}
            there = columns[which]
            alike = np.array([codes.get(one, -1) for one in asked])[rows][:, None] == there
            if name in ("placement", "batch"):
                combined[name] = asked, known, rows[:, None] * len(known) + there
            else:
                same[name] = None if alike.all() else alike.astype(np.float64)
            is_cell &= alike
        row, column = np.nonzero(is_cell)
        micro = np.stack([one.micro_batches for one in observed])[which[row], column]
        again_there = micro == cells.micro_batches[row]
        guessed = np.stack([one.guessed for one in observed])[which] * cells.guessed[:, None]
        (batches, seen, at), (asked, known, on) = combined["batch"], combined["placement"]
        shapes = batch_shapes(np.repeat(batches, len(seen)), np.tile(seen, len(batches)))
        return cls(
            observed=observed,
            same=same,
            guessed=guessed if guessed.any() else None,
            cells=(row[again_there], column[again_there]),
            placements=(_shapes(asked, known), on),
            batches=(shapes, at),
        )

    def covariance(self, prior: ResidualPrior) -> FloatArray:
        """Return the covariance of the residuals of all pairs, shape (fields, rows, observed)."""
        variances = prior.variances.copy()
        if self.same["job"] is None:
            # Among rows of one job, what belongs to it they all share.
            variances[:, :, [ALL, PLACE]] += variances[:, :, [JOB, OWN]]
            variances[:, :, [JOB, OWN]] = 0.0
        total = self._sum(variances[0])
        if self.guessed is not None:
            total += self.guessed * self._sum(variances[1])
        return total

    def _sum(self, variances: FloatArray) -> FloatArray:
        """Return the sum of terms, fields x scopes x batches x placements, for all pairs."""
        (placements, at_placement), (batches, at_batch) = self.placements, self.batches
        needed = np.flatnonzero(variances.any(axis=(0, 1, 3))).tolist()
        looked_up = {batch: batches[batch][at_batch] for batch in needed if batch}
        total = np.zeros((len(Field), *at_placement.shape))
        for field, scope in np.argwhere(variances.any(axis=(2, 3))).tolist():
            parts: FloatArray | float = 0.0
            for batch in np.flatnonzero(variances[field, scope].any(axis=1)).tolist():
                each = variances[field, scope, batch]
                constant = not each[1:].any()
                part = each[0] if constant else (each @ placements)[at_placement]
                parts = parts + (looked_up[batch] * part if batch else part)
            total[field] += self.times(parts, scope, Field(field))
        return total

    def term(self, term: Term) -> FloatArray:
        """Return scope times shapes of one term for all pairs, which no deviation changes."""
        (placements, at_placement), (batches, at_batch) = self.placements, self.batches
        shape = placements[term.placement][at_placement] * batches[term.batch][at_batch]
        if term.of_guesses:
            shape = shape * (0.0 if self.guessed is None else self.guessed)
        return np.asarray(self.times(shape, term.scope, term.field))

    def times(self, values: FloatArray | float, scope: int, field: Field) -> FloatArray | float:
        """Return values where a scope is common to the pair, else 0."""
        place = self.same[PLACES[field]]
        if scope in (PLACE, OWN) and place is not None:
            values = values * place
        job = self.same["job"]
        return values if job is None or scope in (ALL, PLACE) else values * job

    def own(self, values: FloatArray) -> FloatArray:
        """Return values of all fields where job and machine, or fabric, are common, else 0."""
        shape = self.placements[1].shape
        each = [self.times(values[one], OWN, one) for one in Field]
        return np.stack([np.broadcast_to(one, shape) for one in each])


def _shapes(asked: Sequence[Any], known: Sequence[Any]) -> FloatArray:
    """Return the shapes of all combinations of placements, shape (shapes, asked x known)."""
    row, column = np.indices((len(asked), len(known))).reshape(2, -1)
    (here, mine), (there, theirs) = features_of(asked), features_of(known)
    same = (mine[row] == theirs[column]) & (mine != "")[row]
    return placement_shapes(here[:, row], there[:, column], same[None])


def features_of(placements: Sequence[Any]) -> tuple[FloatArray, npt.NDArray[np.str_]]:
    """Return what shapes of placements are made of, and their settings."""
    ranks, hosts, share, setting = zip(*placements, strict=True)
    return placement_features(np.array(ranks), np.array(hosts), np.array(share)), np.array(setting)


def _distinct(cells: StepCells, name: str) -> tuple[list[Any], Codes]:
    """Return what some steps have, each once, and which of it each row has."""
    if name == "placement":
        columns = (cells.ranks, cells.hosts, cells.largest_share, cells.setting)
        values = list(zip(*(column.tolist() for column in columns), strict=True))
    else:
        values = getattr(cells, "batch_size" if name == "batch" else name).tolist()
    codes: dict[Any, int] = {}
    rows = [codes.setdefault(one, len(codes)) for one in values]
    return list(codes), np.array(rows, dtype=np.int64)


def _joined(parts: Sequence[tuple[list[T], Codes]]) -> tuple[list[T], Codes]:
    """Return what several have, each once, and what each row of each of them has."""
    codes: dict[T, int] = {}
    rows = [
        np.array([codes.setdefault(one, len(codes)) for one in values], dtype=np.int64)[at]
        for values, at in parts
    ]
    return list(codes), np.stack(rows)

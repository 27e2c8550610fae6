"""Observed steps of a job, and what of them is compared with the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.placement.calibration.residual_prior import Noise
from perfmodel.placement.calibration.step_cells import StepCells

FloatArray = npt.NDArray[np.float64]

#: A step is never all synchronisation: the least share of it that is left.
_LEAST_ALONE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class ObservedSteps:
    """Measured steps, with what was predicted for them.

    Parameters
    ----------
    step_time_s : ndarray, shape (rows,)
        Whole steps, > 0.
    sync_time_s : ndarray, shape (rows,)
        Part of each that was logged as synchronisation; NaN where it was not.

    Raises
    ------
    InvalidInputError
        No rows, a time that is not above zero, or a part longer than its step.
    """

    cells: StepCells
    step_time_s: FloatArray
    sync_time_s: FloatArray

    def __post_init__(self) -> None:
        rows = len(self.cells)
        if rows == 0 or np.shape(self.step_time_s) != (rows,):
            raise InvalidInputError(f"{rows} observed cells need as many step times, at least one.")
        if np.shape(self.sync_time_s) != (rows,):
            raise InvalidInputError(f"{rows} observed cells need as many sync times, or NaN.")
        if not np.all(np.isfinite(self.step_time_s) & (self.step_time_s > 0)):
            raise InvalidInputError("An observed step_time_s is not a time above zero.")
        logged = self.sync_time_s[~np.isnan(self.sync_time_s)]
        limit = self.step_time_s[~np.isnan(self.sync_time_s)]
        if not np.all((logged >= 0) & (logged <= limit)):
            raise InvalidInputError(
                "An observed sync_time_s is below zero or longer than its step_time_s."
            )

    def ordered(self) -> Self:
        """Return the same rows in an order that only depends on what they hold."""
        order = self.cells.order(self.step_time_s, np.nan_to_num(self.sync_time_s, nan=-1.0))
        return self.take(order)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Self:
        """Return some of the rows, by a mask or by positions."""
        return type(self)(
            cells=self.cells.take(rows),
            step_time_s=self.step_time_s[rows],
            sync_time_s=self.sync_time_s[rows],
        )

    @classmethod
    def of_one(cls, cells: StepCells, step_time_s: float, sync_time_s: float | None) -> Self:
        """Return the one step of a row of cells; ``None`` where no sync time was logged."""
        sync = np.nan if sync_time_s is None else sync_time_s
        return cls(cells=cells, step_time_s=np.array([step_time_s]), sync_time_s=np.array([sync]))

    @classmethod
    def join(cls, *pieces: ObservedSteps) -> Self:
        """Return the rows of several, one after the other."""
        return cls(
            cells=StepCells.join([piece.cells for piece in pieces]),
            step_time_s=np.concatenate([piece.step_time_s for piece in pieces]),
            sync_time_s=np.concatenate([piece.sync_time_s for piece in pieces]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; null where nothing was logged."""
        logged = [None if np.isnan(one) else one for one in self.sync_time_s.tolist()]
        return {
            "cells": self.cells.to_dict(),
            "step_time_s": self.step_time_s.tolist(),
            "sync_time_s": logged,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Read back what :meth:`to_dict` gave."""
        return cls(
            cells=StepCells.from_dict(plain["cells"]),
            step_time_s=np.asarray(plain["step_time_s"], dtype=np.float64),
            sync_time_s=np.asarray(plain["sync_time_s"], dtype=np.float64),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparisons:
    """Numbers of observed steps that are compared with the channels of the model.

    Parameters
    ----------
    rows : ndarray of int, shape (comparisons,)
        Which step each belongs to.
    mix : ndarray, shape (2, comparisons)
        What is taken of both channels: one of them, or both for a step whose parts are not known.
    values : ndarray, shape (comparisons,)
    variance : ndarray, shape (comparisons,)
        Of the error that is expected.
    misplaced : ndarray, shape (comparisons,)
        Part of its standard deviation that belongs to the other comparison of the same step, with
        the opposite sign; above zero for a step alone, below for what communication adds to it.
    alike : ndarray of bool, shape (comparisons, comparisons)
        Repeats of the same comparison of the same cell.
    paired : ndarray of bool, shape (comparisons, comparisons)
        Step alone and what communication adds to it, of the same cell.
    """

    rows: npt.NDArray[np.int64]
    mix: FloatArray
    values: FloatArray
    variance: FloatArray
    misplaced: FloatArray
    alike: npt.NDArray[np.bool_]
    paired: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, observed: ObservedSteps, noise: Noise) -> Comparisons:
        """Return two comparisons of steps whose parts are known and one of others."""
        step, sync = observed.step_time_s, observed.sync_time_s
        apart = (observed.cells.ranks > 1) & ~np.isnan(sync)
        alone = alone_s(step, sync, observed.cells.ranks)
        variances = noise.variances(1 - alone / step)
        split, whole = np.flatnonzero(apart), np.flatnonzero(~apart)
        rows = np.concatenate([split, split, whole])
        kind = np.repeat([0, 1, 2], [len(split), len(split), len(whole)])
        values = np.where(kind == 1, np.log(step / alone)[rows], np.log(alone)[rows])
        misplaced = np.choose(kind, (noise.misplaced, -noise.misplaced, 0.0))
        variance = np.where(kind == 1, variances[1][rows], variances[0][rows]) + misplaced**2
        cell = cell_codes(observed.cells, observed.cells)[0][rows]
        return cls(
            rows=rows,
            mix=np.stack([kind != 1, kind != 0]).astype(np.float64),
            values=values,
            variance=variance,
            misplaced=misplaced,
            alike=(cell[:, None] == cell) & (kind[:, None] == kind),
            paired=(cell[:, None] == cell) & (kind[:, None] + kind == 1),
        )

    def of_channels(self, channels: FloatArray) -> FloatArray:
        """Return the compared numbers of channels, shape (..., 2, rows) to (..., comparisons)."""
        return np.asarray(
            channels[..., 0, self.rows] * self.mix[0] + channels[..., 1, self.rows] * self.mix[1]
        )

    def errors(self, trust: FloatArray, cell: float) -> FloatArray:
        """Return the covariance of the errors: repeats share what belongs to their cell."""
        spread = np.sqrt(self.variance)
        covariance = self.alike * (cell * spread[:, None] * spread)
        np.fill_diagonal(covariance, self.variance / trust)
        if self.misplaced.any():
            shared = np.where(self.rows[:, None] == self.rows, 1.0, cell)
            covariance += self.paired * shared * self.misplaced[:, None] * self.misplaced
        return np.asarray(covariance)

    def effects(self, here: StepCells, observed: StepCells, cell: float) -> FloatArray:
        """Return the covariance of cells' own errors with the comparisons.

        Returns
        -------
        ndarray, shape (2, rows of here, comparisons)
            Errors of the step alone, and of what communication adds to it.
        """
        codes, known = cell_codes(here, observed)
        same = cell * (codes[:, None] == known[self.rows])
        growth, moved = self.mix[0] == 0, -(self.misplaced**2)
        alone = np.where(growth, moved, self.variance)
        return np.stack([same * alone, same * np.where(growth, self.variance, moved)])


def alone_s(
    step_time_s: FloatArray, sync_time_s: FloatArray, ranks: npt.NDArray[Any]
) -> FloatArray:
    """Return what steps take without synchronisation, where that was logged.

    Examples
    --------
    >>> both = np.array([0.3, 0.3])
    >>> alone_s(both, np.array([0.1, np.nan]), np.array([2, 2])).round(3).tolist()
    [0.2, 0.3]
    """
    apart = (ranks > 1) & ~np.isnan(sync_time_s)
    left = np.maximum(step_time_s - sync_time_s, _LEAST_ALONE * step_time_s)
    return np.where(apart, left, step_time_s)


def cell_codes(a: StepCells, b: StepCells) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return one number for each row of both, equal where the cell is the same."""
    names = ("job", "machine", "fabric", "batch_size", "ranks", "hosts", "largest_share")
    keys = [
        tuple(row)
        for cells in (a, b)
        for row in zip(*(getattr(cells, name).tolist() for name in names), strict=True)
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    codes = np.array([numbers[key] for key in keys], dtype=np.int64)
    return codes[: len(a)], codes[len(a) :]

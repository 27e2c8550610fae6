"""Observed steps of a job, and what of them is compared with the model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.features.arrays import Columns, FloatArray, StrArray
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.residual_prior import Noise
from perfmodel.placement.calibration.step_cells import StepCells

_NOBODY, _ONCE, _ALIKE = np.array([""]), np.ones(1), np.zeros(1)
#: Standard deviations in a median absolute deviation, of a normal distribution.
_SD_OF_DEVIATION = 1.4826
#: A step is never all synchronisation: the least share of it that is left.
_LEAST_ALONE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class ObservedSteps(Columns):
    """Measured steps, with what was predicted for them.

    Parameters
    ----------
    step_time_s : ndarray, shape (rows,)
        Whole steps, > 0.
    sync_time_s : ndarray, shape (rows,)
        Part of each that was logged as synchronisation; NaN where it was not.
    reporter : ndarray of str, shape (rows,)
        Who reported each; empty for whoever asks, and for nobody in particular.
    repeats : ndarray, shape (rows,)
        Measurements behind each, >= 1.
    scatter : ndarray, shape (rows,)
        Standard deviation of the logarithm of those, from their median absolute deviation.

    Raises
    ------
    InvalidInputError
        No rows, a time that is not above zero, or a part longer than its step.
    """

    cells: StepCells
    step_time_s: FloatArray
    sync_time_s: FloatArray
    reporter: StrArray = field(default_factory=lambda: _NOBODY)
    repeats: FloatArray = field(default_factory=lambda: _ONCE)
    scatter: FloatArray = field(default_factory=lambda: _ALIKE)

    def __post_init__(self) -> None:
        rows = len(self.cells)
        if rows == 0 or np.shape(self.step_time_s) != (rows,):
            raise InvalidInputError(f"{rows} observed cells need as many step times, at least one.")
        if np.shape(self.sync_time_s) != (rows,):
            raise InvalidInputError(f"{rows} observed cells need as many sync times, or NaN.")
        for name in ("reporter", "repeats", "scatter"):
            object.__setattr__(self, name, np.array(np.broadcast_to(getattr(self, name), (rows,))))
        if not np.all(np.isfinite(self.step_time_s) & (self.step_time_s > 0)):
            raise InvalidInputError("An observed step_time_s is not a time above zero.")
        logged = self.sync_time_s[~np.isnan(self.sync_time_s)]
        limit = self.step_time_s[~np.isnan(self.sync_time_s)]
        if not np.all((logged >= 0) & (logged <= limit)):
            raise InvalidInputError(
                "An observed sync_time_s is below zero or longer than its step_time_s."
            )

    def pooled(self) -> Self:
        """Return one row for each cell, in an order that only depends on what the rows hold.

        A cell takes the median of what its reporters say, each of them the median of their
        measurements. Where whoever asks has measured a cell, nobody else is heard about it.
        """
        rows: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for row, cell in enumerate(self.cells.identities()):
            rows[cell].append(row)
        found = np.array([self._pooled_cell(some) for some in rows.values()])
        cells = self.cells.take(np.array([some[0] for some in rows.values()]))
        order = cells.order(found[:, 0], np.nan_to_num(found[:, 1], nan=-1.0))
        step, sync, repeats, scatter = (column[order] for column in found.T)
        return type(self)(
            # Codes of placements would be in the order in which rows came.
            cells=replace(cells.take(order), place=np.arange(len(order))),
            step_time_s=step,
            sync_time_s=sync,
            repeats=repeats,
            scatter=scatter,
        )

    def _pooled_cell(self, rows: Sequence[int]) -> tuple[float, float, float, float]:
        """Return the step, its synchronisation, and how many measurements scatter how far."""
        by: dict[str, list[int]] = defaultdict(list)
        for row in rows:
            by[str(self.reporter[row])].append(row)
        heard = [by[""]] if "" in by else list(by.values())
        steps = [known_median(np.log(self.step_time_s[some])) for some in heard]
        step = float(np.exp(known_median(np.array(steps))))
        shares = [known_median(self.sync_time_s[some] / self.step_time_s[some]) for some in heard]
        share = known_median(np.array(shares))
        every = np.concatenate(heard)
        apart = known_median(np.abs(np.log(self.step_time_s[every] / step)))
        scatter = max(_SD_OF_DEVIATION * apart, known_median(self.scatter[every]))
        return step, share * step, float(self.repeats[every].sum()), scatter

    @classmethod
    def of(cls, cells: StepCells, seen: Sequence[Observation]) -> Self:
        """Return what was observed of the cells, in their order."""
        sync = [np.nan if one.sync_time_s is None else one.sync_time_s for one in seen]
        return cls(
            cells=cells,
            step_time_s=np.array([one.step_time_s for one in seen]),
            sync_time_s=np.array(sync),
            reporter=np.array([one.reporter for one in seen]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparisons:
    """Numbers of observed steps that are compared with the channels of the model.

    Parameters
    ----------
    rows : ndarray of int, shape (comparisons,)
        Which step each belongs to; no two steps are of one cell.
    mix : ndarray, shape (2, comparisons)
        What is taken of both channels: one of them, or both for a step whose parts are not known.
    values : ndarray, shape (comparisons,)
    variance : ndarray, shape (comparisons,)
        Of what the cell has to itself, for ever; now and then it is far more.
    repeat : ndarray, shape (comparisons,)
        Variance of measuring it once more, over its measurements.
    misplaced : ndarray, shape (comparisons,)
        Part of the standard deviation that belongs to the other comparison of the same step, with
        the opposite sign; above zero for a step alone, below for what communication adds to it.
    """

    rows: npt.NDArray[np.int64]
    mix: FloatArray
    values: FloatArray
    variance: FloatArray
    repeat: FloatArray
    misplaced: FloatArray

    @classmethod
    def of(cls, observed: ObservedSteps, noise: Noise) -> Comparisons:
        """Return two comparisons of steps whose parts are known and one of others.

        Parameters
        ----------
        observed : ObservedSteps
            Pooled.
        """
        step = observed.step_time_s
        # Where no communication is predicted there is nothing to compare its part with.
        sync = np.where(observed.cells.communicates, observed.sync_time_s, np.nan)
        apart = ~np.isnan(sync)
        alone = alone_s(step, sync, observed.cells.ranks)
        variances = noise.variances(1 - alone / step)
        split, whole = np.flatnonzero(apart), np.flatnonzero(~apart)
        rows = np.concatenate([split, split, whole])
        kind = np.repeat([0, 1, 2], [len(split), len(split), len(whole)])
        misplaced = np.choose(kind, (noise.misplaced, -noise.misplaced, 0.0))
        growth = kind == 1
        repeat = np.where(growth, noise.sync, noise.repeat) ** 2 / observed.repeats[rows]
        return cls(
            rows=rows,
            mix=np.stack([kind != 1, kind != 0]).astype(np.float64),
            values=np.where(growth, np.log(step / alone)[rows], np.log(alone)[rows]),
            variance=np.where(growth, variances[1][rows], variances[0][rows]) + misplaced**2,
            repeat=repeat,
            misplaced=misplaced,
        )

    def of_channels(self, channels: FloatArray) -> FloatArray:
        """Return the compared numbers of channels, shape (..., 2, rows) to (..., comparisons)."""
        return np.asarray(
            channels[..., 0, self.rows] * self.mix[0] + channels[..., 1, self.rows] * self.mix[1]
        )

    def errors(self, trust: FloatArray) -> FloatArray:
        """Return the covariance of what is compared and of no field, shape (comparisons,) * 2."""
        covariance = np.diag(self.variance / trust + self.repeat)
        if self.misplaced.any():
            both = (self.rows[:, None] == self.rows) & (self.mix[0][:, None] != self.mix[0])
            covariance += both * self.misplaced[:, None] * self.misplaced
        return np.asarray(covariance)

    def own(self, trust: FloatArray) -> FloatArray:
        """Return the covariance of what a cell has to itself with its own comparisons.

        Returns
        -------
        ndarray, shape (2, comparisons)
            Of the step alone, and of what communication adds to it.
        """
        growth, moved = self.mix[0] == 0, -(self.misplaced**2)
        own = self.variance / trust
        return np.stack([np.where(growth, moved, own), np.where(growth, own, moved)])


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


def same_cells(here: StepCells, observed: StepCells) -> npt.NDArray[np.bool_]:
    """Return which cells are the same, shape (rows of here, rows of observed)."""
    known = {cell: code for code, cell in enumerate(dict.fromkeys(observed.identities()))}
    codes = np.array([known[cell] for cell in observed.identities()])
    asked = np.array([known.get(cell, -1) for cell in here.identities()])
    return np.asarray(asked[:, None] == codes)


def known_median(values: FloatArray) -> float:
    """Return the median of what is known of some values; NaN where nothing is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")

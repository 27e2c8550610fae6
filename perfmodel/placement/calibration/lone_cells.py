r"""Observed cells that count for themselves alone, where a job was observed in very many.

The time of a calibration grows with the cube of its cells. Residuals run smoothly over batches and
placements, so that some hundred cells, spread evenly, tell what all of them do. Each of the others
still answers for itself: what the calibration expects of its channels, :math:`\mu` with covariance
:math:`F`, is one more prior, and with what the cell has to itself, :math:`D`, and the noise of
measuring it, :math:`R`, the answer is

.. math:: \mu + (F M^T + D)\,(M F M^T + D + R)^{-1} (y - M \mu),

where :math:`M` makes what is compared of the channels. Errors of cells are Student's here too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.calibration.observed_steps import Comparisons, ObservedSteps
from perfmodel.placement.calibration.residual_prior import Noise
from perfmodel.placement.calibration.step_cells import StepCells

T = TypeVar("T")

#: Times that an error is weighed by what is left of it.
_ROUNDS = 4


class Told(NamedTuple):
    """What a lone cell says of itself.

    Parameters
    ----------
    effects : ndarray, shape (2,)
        By what both channels of its step are larger than the others make believe.
    variance : float
        Of the logarithm of its step, but for the noise of measuring it.
    scatter : float
        Standard deviation of its measurements.
    """

    effects: FloatArray
    variance: float
    scatter: float


@dataclass(frozen=True, kw_only=True, eq=False)
class LoneCells:
    """Observed cells that a calibration does not weigh together with the others.

    Parameters
    ----------
    observed : ObservedSteps
        Pooled.
    noise : Noise
        Of cells and of measurements.
    """

    observed: ObservedSteps
    noise: Noise

    @cached_property
    def at(self) -> Mapping[Hashable, int]:
        """Position of each cell, by its identity."""
        return {cell: at for at, cell in enumerate(self.observed.cells.identities())}

    def tell(self, cell: int, channels: FloatArray, covariance: FloatArray) -> Told:
        """Return what a cell says of itself.

        Parameters
        ----------
        cell : int
            Its position.
        channels : ndarray, shape (2,)
            Those of the step that all other cells make believe.
        covariance : ndarray, shape (2, 2)
            Of these.
        """
        own = Comparisons.of(self.observed.take([cell]), self.noise)
        mix, freedom = own.mix.T, self.noise.freedom
        off, usual = own.values - mix @ channels, own.variance + own.repeat
        # Of all fields with what is compared, and of that by itself.
        shared = covariance @ mix.T
        spread, missing = mix @ shared, off
        for _ in range(_ROUNDS):
            trust = np.minimum((freedom + 1) / (freedom + missing**2 / usual), 1.0)
            errors = own.errors(trust)
            weights = np.linalg.solve(spread + errors, off)
            missing = off - spread @ weights
        peculiar = own.own(trust)
        whole = (shared + peculiar).sum(axis=0)
        before = float(covariance.sum() + peculiar.sum())
        taken = float(whole @ np.linalg.solve(spread + errors, whole))
        return Told(
            effects=(shared + peculiar) @ weights,
            variance=max(before - taken, 0.0),
            scatter=float(self.observed.scatter[cell]),
        )


def spread_rows(cells: StepCells, most: int) -> npt.NDArray[np.bool_]:
    """Return which rows stand for all: alike many of each job, and of each of its placements.

    Of a placement they are spread over its batches, those at both ends among them.

    Parameters
    ----------
    cells : StepCells
        One row for each cell, in an order that depends on nothing but what they are.
    most : int
        How many rows, > 0.
    """
    chosen = np.zeros(len(cells), dtype=np.bool_)
    if len(cells) <= most:
        return ~chosen
    rows: dict[str, dict[tuple[Any, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    columns = (
        cells.machine, cells.fabric, cells.setting, cells.wiring, cells.ranks, cells.hosts,
        cells.largest_share,
    )  # fmt: skip
    jobs = cells.job.tolist()
    places = list(zip(*(column.tolist() for column in columns), strict=True))
    for row in np.argsort(cells.batch_size, kind="stable").tolist():
        rows[jobs[row]][places[row]].append(row)
    turns = [
        _in_turn([_spread(rows[job][place]) for place in _spread(sorted(rows[job]))])
        for job in sorted(rows)
    ]
    chosen[_in_turn(turns)[:most]] = True
    return chosen


def _in_turn(lists: Sequence[Sequence[T]]) -> list[T]:
    """Return the first of each list, then the second of each, and so on."""
    longest = max(map(len, lists))
    return [one[turn] for turn in range(longest) for one in lists if turn < len(one)]


def _spread(values: Sequence[T]) -> list[T]:
    """Return values in an order of which every beginning is spread over all of them.

    Examples
    --------
    >>> _spread([1, 2, 3, 4, 5, 6, 7, 8, 9])
    [9, 1, 5, 3, 7, 2, 6, 4, 8]
    """
    *others, last = values
    bits = len(others).bit_length()
    # Halves, then quarters, and so on: by the bits of a counter in reverse.
    turns = (int(f"{turn:0{bits}b}"[::-1], 2) for turn in range(2**bits))
    places = dict.fromkeys(turn * len(others) // 2**bits for turn in turns)
    return [last, *(others[at] for at in places if others)]

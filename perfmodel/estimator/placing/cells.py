"""Cells, each a job on a placement, and the steps that answer them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from perfmodel.client.answers import Neighbour
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.slowdowns import Neighbours, Slowdown
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.estimate import StepNumbers, StepParts
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import LADDER, RUNG, Basis


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """Steps of some cells, and the throughput that they make: arrays of one shape.

    Parameters
    ----------
    step_time_s : ndarray
        What the parts add up to, to rounding.
    low, high : ndarray
        Ends of the interval of the throughput.
    half_width : ndarray
        Of that interval, in logarithms.
    rung : ndarray of int
        Position on the ladder of evidence.
    nearest : sequence of tuple of str
        For each cell of a row what it rests on; empty where nothing is known of that.
    neighbours : sequence of tuple of Neighbour
        For each cell of a row what jobs on the same accelerators suffer; empty as well.
    neighbour_bytes : sequence of float
        Memory that they hold of an accelerator, as far as it is known; likewise.
    slowdowns : sequence of tuple of Slowdown
        Of each kind of accelerator; likewise, and where nothing slows a cell down.
    said : dict of (int, int) to tuple of str
        What was said of single cells, by their place.
    efficiency : ndarray or None
        Time that was predicted over the time of the step, where the job was observed; NaN where it
        was not.
    """

    parts: StepParts
    step_time_s: FloatArray
    samples_per_second: FloatArray
    low: FloatArray
    high: FloatArray
    half_width: FloatArray
    rung: npt.NDArray[np.int8]
    nearest: Sequence[tuple[str, ...]] = ()
    neighbours: Sequence[tuple[Neighbour, ...]] = ()
    neighbour_bytes: Sequence[float] = ()
    slowdowns: Sequence[tuple[Slowdown, ...]] = ()
    said: dict[tuple[int, ...], tuple[str, ...]] = field(default_factory=dict)
    efficiency: FloatArray | None = None

    @classmethod
    def row(cls, cells: Sequence[CellStep]) -> Self:
        """Return single cells as a row of many."""

        def column(name: str) -> FloatArray:
            return np.array([[getattr(one, name) for one in cells]], dtype=np.float64)

        parts = np.array([one.parts for one in cells], dtype=np.float64).T[:, None]
        return cls(
            parts=StepParts(**dict(zip(StepNumbers._fields, parts, strict=True))),
            step_time_s=column("step_time_s"),
            samples_per_second=column("samples_per_second"),
            low=column("low"),
            high=column("high"),
            half_width=column("half_width"),
            rung=np.array([[RUNG[one.basis] for one in cells]], dtype=np.int8),
            said={(0, at): one.warnings for at, one in enumerate(cells) if one.warnings},
            nearest=[one.nearest for one in cells],
            neighbours=[one.neighbours for one in cells],
            neighbour_bytes=[one.neighbour_bytes for one in cells],
            slowdowns=[one.slowdowns for one in cells],
        )

    def at(self, index: tuple[int, ...]) -> CellStep:
        """Return one cell as plain numbers."""
        efficiency = None if self.efficiency is None else float(self.efficiency[index])
        column = index[-1]
        return CellStep(
            parts=self.parts.at(index),
            step_time_s=float(self.step_time_s[index]),
            samples_per_second=float(self.samples_per_second[index]),
            low=float(self.low[index]),
            high=float(self.high[index]),
            half_width=float(self.half_width[index]),
            basis=LADDER[int(self.rung[index])],
            warnings=self.said.get(index, ()),
            nearest=self.nearest[column] if self.nearest else (),
            neighbours=self.neighbours[column] if self.neighbours else (),
            neighbour_bytes=self.neighbour_bytes[column] if self.neighbour_bytes else 0.0,
            slowdowns=self.slowdowns[column] if self.slowdowns else (),
            efficiency=None if efficiency is None or math.isnan(efficiency) else efficiency,
        )


class CellStep(NamedTuple):
    """One cell of :class:`Steps`, as plain numbers."""

    parts: StepNumbers
    step_time_s: float
    samples_per_second: float
    low: float
    high: float
    half_width: float
    basis: Basis
    warnings: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    neighbour_bytes: float = 0.0
    slowdowns: tuple[Slowdown, ...] = ()
    efficiency: float | None = None


class Cell(NamedTuple):
    """A captured job on a placement, and what is predicted of it.

    Parameters
    ----------
    predictions : sequence of Prediction
        On one accelerator of each kind of the placement, in order.
    neighbours : sequence
        For each kind the jobs beside this one.
    part : PreparedJob or None
        What one accelerator carries out of the job, which is what is predicted; None: all of it.
    """

    prepared: PreparedJob
    placement: ResolvedPlacement
    predictions: Sequence[Prediction]
    neighbours: Neighbours = ()
    part: PreparedJob | None = None

    @property
    def carried(self) -> PreparedJob:
        """What one accelerator carries out."""
        return self.part or self.prepared

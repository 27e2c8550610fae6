"""Put together the Estimate of one job on one placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.compiled_room import compiled_memory
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.placed import PlacedStep
from perfmodel.estimator.resolve import Kind, ResolvedPlacement
from perfmodel.estimator.splits import split_warnings
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.data_parallel.one_step import StepNumbers
from perfmodel.placement.estimate import (
    Breakdown,
    Estimate,
    MemoryEstimate,
    NeighbourEstimate,
    Throughput,
)
from perfmodel.placement.memory.memory import memory_estimate
from perfmodel.types import Basis

#: Memories of one job that are kept.
_MOST_MEMORIES = 1_024

FloatArray = npt.NDArray[np.float64]

#: Rungs of the ladder of evidence, best first.
LADDER: tuple[Basis, ...] = tuple(Basis)

#: Position of each rung on the ladder.
RUNG = {basis: position for position, basis in enumerate(LADDER)}


def compose(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    placed: PlacedStep,
) -> Estimate:
    """Put together the answer.

    Parameters
    ----------
    predictions : sequence
        On one accelerator of each kind of the placement, in order.
    placed : PlacedStep
        The step on all of them.

    Returns
    -------
    Estimate
        ``low`` comes from the upper ends of the step times and ``high`` from the lower ends.
    """
    rate, at_low, at_high = placed.samples_per_second.tolist()
    low, high = interval(rate, at_low, at_high, placed.half_width)
    parts = placed.parts
    return estimate_of(
        prepared,
        placement,
        predictions,
        StepOfCell(
            parts=StepNumbers(
                float(parts.compute_s[0]),
                float(parts.exposed_communication_s[0]),
                float(parts.input_stall_s[0]),
                float(parts.overhead_s[0]),
                float(parts.communication_s[0]),
            ),
            samples_per_second=rate,
            low=float(low),
            high=float(high),
            basis=placed.basis,
            calibrated=placed.calibrated,
            warnings=placed.warnings,
            neighbours=placed.neighbours,
            neighbour_bytes=placed.neighbour_bytes,
        ),
    )


class StepOfCell(NamedTuple):
    """The step of a job on a placement, as one cell has it.

    Parameters
    ----------
    basis, calibrated, warnings, neighbours, neighbour_bytes
        As :class:`.placed.PlacedStep`.
    """

    parts: StepNumbers
    samples_per_second: float
    low: float
    high: float
    basis: Basis | None = None
    calibrated: bool = False
    warnings: tuple[str, ...] = ()
    neighbours: tuple[NeighbourEstimate, ...] = ()
    neighbour_bytes: float = 0.0


def estimate_of(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    cell: StepOfCell,
) -> Estimate:
    """Return the answer that says what a step on a placement rests on.

    Parameters
    ----------
    predictions : sequence
        On one accelerator of each kind of the placement, in order.
    """
    slowest = predictions[0]
    if len(predictions) > 1:
        slowest = max(predictions, key=lambda p: p.time_s)
    parts, rate = cell.parts, cell.samples_per_second
    memory = tightest_memory(prepared, placement, cell.neighbour_bytes)
    return Estimate(
        throughput=Throughput(
            samples_per_second=rate,
            low=cell.low,
            high=cell.high,
            coverage=min([p.coverage for p in predictions]),
            tokens_per_second=_tokens_per_second(prepared, rate),
        ),
        step_time_s=parts.step_time_s,
        compute_time_s=parts.compute_s,
        sync_time_s=parts.communication_s,
        breakdown=Breakdown(
            compute_s=parts.compute_s,
            exposed_communication_s=parts.exposed_communication_s,
            input_stall_s=parts.input_stall_s,
            overhead_s=parts.overhead_s,
        ),
        memory=memory,
        basis=Basis.CALIBRATED
        if cell.calibrated
        else basis_of([p.basis for p in predictions], cell.basis),
        out_of_distribution=any([p.out_of_distribution for p in predictions]),
        nearest=tuple(slowest.nearest),
        model_version=slowest.model_version,
        unpriced_operators=prepared.step.unpriced_operators,
        warnings=_warnings(prepared, placement, predictions, cell.warnings, memory),
        neighbours=cell.neighbours,
    )


def interval(
    rate: npt.ArrayLike, at_low: npt.ArrayLike, at_high: npt.ArrayLike, half_width: npt.ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the interval of a throughput.

    Parameters
    ----------
    rate : array_like
        As predicted.
    at_low, at_high : array_like
        With the low and the high end of the time on one accelerator.
    half_width : array_like
        What the placement adds, in logarithms; independent of the time on one accelerator.
    """
    rate, wide = np.asarray(rate, dtype=np.float64), np.asarray(half_width, dtype=np.float64)
    above, below = np.asarray(at_low) / rate, np.asarray(at_high) / rate
    # A placement that adds nothing leaves the ends as they are, to the last digit.
    low = np.where(wide > 0, rate * np.exp(-np.hypot(np.log(below), wide)), rate * below)
    high = np.where(wide > 0, rate * np.exp(np.hypot(np.log(above), wide)), rate * above)
    return np.minimum(low, rate), np.maximum(high, rate)


def basis_of(bases: Sequence[Basis], scaling: Basis | None) -> Basis:
    """Return the weakest rung that an answer stands on.

    Parameters
    ----------
    bases : sequence of Basis
        Of the time on one accelerator of each kind.
    scaling : Basis or None
        The best that the placement allows.
    """
    worst = max([RUNG[basis] for basis in bases])
    return LADDER[worst if scaling is None else max(worst, RUNG[scaling])]


def _tokens_per_second(prepared: PreparedJob, rate: float) -> float | None:
    tokens = prepared.step.tokens_per_sample
    return None if tokens is None else rate * tokens


def tightest_memory(
    prepared: PreparedJob, placement: ResolvedPlacement, neighbour_bytes: float = 0.0
) -> MemoryEstimate:
    """Return the memory of the accelerator with the least room.

    Parameters
    ----------
    neighbour_bytes : float
        What other jobs hold of it: the step fits where all of them do.
    """
    estimates = [_memory_on(prepared, placement, kind) for kind in placement.kinds]
    if len(estimates) == 1 and not neighbour_bytes:
        return estimates[0]
    least = min(estimates, key=lambda memory: memory.capacity_bytes - (memory.peak_bytes or 0.0))
    if (least.peak_bytes or 0.0) + neighbour_bytes <= least.capacity_bytes or not neighbour_bytes:
        return least
    return replace(least, fits=False, oom_probability=1.0)


def _memory_on(prepared: PreparedJob, placement: ResolvedPlacement, kind: Kind) -> MemoryEstimate:
    """Return the memory of one accelerator of a kind; it is worked out once for all that agree."""
    plan = placement.fabric.plan
    # Replicas that share nothing out hold the same, however many they are beyond one.
    plain = not (placement.is_split or plan.zero_stage)
    told_apart = (placement.count > 1, plan.sequence_parallel) if plain else plan
    key = (kind.accelerator.name, kind.part, told_apart)
    known = prepared.memories.get(key)
    if known is None or known[0] is not kind.accelerator:
        if len(prepared.memories) >= _MOST_MEMORIES:
            prepared.memories.clear()
        found = compiled_memory(prepared, kind.held, plan) or memory_estimate(
            prepared.memory_profile, kind.held, job=prepared.job, plan=plan
        )
        known = prepared.memories[key] = (kind.accelerator, found)
    return known[1]


def _warnings(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    of_placing: tuple[str, ...],
    memory: MemoryEstimate,
) -> tuple[str, ...]:
    said = [text for prediction in predictions for text in prediction.warnings]
    room = () if memory.fits is not False else (NO_ROOM_WARNING,)
    of_placing = (*of_placing, *split_warnings(prepared, placement))
    # Each text once, in the order of first mention.
    return tuple(
        dict.fromkeys((*said, *placement.warnings, *of_placing, *prepared.warnings, *room))
    )


#: Said where the peak memory exceeds what an accelerator has.
NO_ROOM_WARNING = (
    "The step needs more memory than the accelerator has; the throughput is what it would reach "
    "if it fitted."
)

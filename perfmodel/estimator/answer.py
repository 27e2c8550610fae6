"""Put together the Estimate of one job on one placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.placed import PlacedStep
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.estimate import Breakdown, Estimate, MemoryEstimate, Throughput
from perfmodel.placement.memory.memory import memory_estimate
from perfmodel.types import Basis

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
    prepared : PreparedJob
    placement : ResolvedPlacement
    predictions : sequence
        On one accelerator of each kind of the placement, in order.
    placed : PlacedStep
        The step on all of them.

    Returns
    -------
    Estimate
        ``low`` comes from the upper ends of the step times and ``high`` from the lower ends.
    """
    slowest = max(predictions, key=lambda p: p.time_s)
    parts = placed.parts
    rate, at_low, at_high = placed.samples_per_second.tolist()
    low, high = interval(rate, at_low, at_high, placed.half_width)
    memory = tightest_memory(prepared, placement, placed.neighbour_bytes)
    compute_s = float(parts.compute_s[0])
    return Estimate(
        throughput=Throughput(
            samples_per_second=rate,
            low=float(low),
            high=float(high),
            coverage=min(p.coverage for p in predictions),
            tokens_per_second=_tokens_per_second(prepared, rate),
        ),
        step_time_s=float(parts.step_time_s[0]),
        compute_time_s=compute_s,
        sync_time_s=float(parts.communication_s[0]),
        breakdown=Breakdown(
            compute_s=compute_s,
            exposed_communication_s=float(parts.exposed_communication_s[0]),
            input_stall_s=float(parts.input_stall_s[0]),
            overhead_s=float(parts.overhead_s[0]),
        ),
        memory=memory,
        basis=Basis.CALIBRATED
        if placed.calibrated
        else basis_of([p.basis for p in predictions], placed.basis),
        out_of_distribution=any(p.out_of_distribution for p in predictions),
        nearest=tuple(slowest.nearest),
        model_version=slowest.model_version,
        unpriced_operators=prepared.step.unpriced_operators,
        warnings=_warnings(prepared, placement, predictions, placed, memory),
        neighbours=placed.neighbours,
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

    Returns
    -------
    low, high : ndarray
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
    worst = max(RUNG[basis] for basis in bases)
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
    prepared : PreparedJob
    placement : ResolvedPlacement
    neighbour_bytes : float
        What other jobs hold of it: the step fits where all of them do.
    """
    profile, job, plan = prepared.memory_profile, prepared.job, placement.fabric.plan
    estimates = [
        memory_estimate(profile, kind.held, job=job, plan=plan, accelerator_count=placement.count)
        for kind in placement.kinds
    ]
    least = min(estimates, key=lambda memory: memory.capacity_bytes - (memory.peak_bytes or 0.0))
    if (least.peak_bytes or 0.0) + neighbour_bytes <= least.capacity_bytes or not neighbour_bytes:
        return least
    return replace(least, fits=False, oom_probability=1.0)


def _warnings(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    placed: PlacedStep,
    memory: MemoryEstimate,
) -> tuple[str, ...]:
    said = [text for prediction in predictions for text in prediction.warnings]
    room = () if memory.fits is not False else (NO_ROOM_WARNING,)
    # Each text once, in the order of first mention.
    return tuple(
        dict.fromkeys((*said, *placement.warnings, *placed.warnings, *prepared.warnings, *room))
    )


#: Said where the peak memory exceeds what an accelerator has.
NO_ROOM_WARNING = (
    "The step needs more memory than the accelerator has; the throughput is what it would reach "
    "if it fitted."
)

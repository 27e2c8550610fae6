"""One job on whole accelerators in data parallel, on plain numbers: what most questions ask.

The equations are those of :mod:`.placed` and :mod:`.matrix_columns`; arrays of one cell would take
twenty times as long as its numbers. A test holds the ways to the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.estimator.answer import StepOfCell, estimate_of
from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.placed import scaling_basis
from perfmodel.estimator.replicas import OF_COMMUNICATION, OF_SCALING
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.data_parallel.one_step import OneReplicaGroup, StepNumbers
from perfmodel.placement.estimate import Estimate
from perfmodel.types import Mode


def is_plain(prepared: PreparedJob, placement: ResolvedPlacement) -> bool:
    """Tell whether :func:`plain_answer` answers for a job on a placement.

    Parameters
    ----------
    prepared : PreparedJob
    placement : ResolvedPlacement
    """
    return placement.is_plain and not (placement.count > 1 and prepared.has_plan_engine)


def plain_answer(
    prepared: PreparedJob, placement: ResolvedPlacement, predictions: Sequence[StepPrediction]
) -> Estimate:
    """Answer for a job on a placement that :func:`is_plain`.

    Parameters
    ----------
    prepared : PreparedJob
    placement : ResolvedPlacement
    predictions : sequence of StepPrediction
        On one accelerator of each kind of the placement, in order.
    """
    levels = (
        [p.time_s for p in predictions],
        [p.low_s for p in predictions],
        [p.high_s for p in predictions],
    )
    if placement.count == 1 or prepared.job.mode is Mode.INFERENCE:
        # Replicas of inference do not wait for each other: the slowest is stated.
        steps = [StepNumbers(max(times)) for times in levels]
        half_width = 0.0
    else:
        group = OneReplicaGroup(
            prepared.step.bucket_numbers,
            placement.world_costs,
            prepared.straggler,
            zero_stage=placement.fabric.plan.zero_stage,
            accumulation_steps=prepared.job.accumulation_steps,
        )
        steps = [group.step(max(times)) for times in levels]
        added = steps[0].exposed_communication_s + steps[0].overhead_s
        half_width = math.hypot(OF_SCALING, OF_COMMUNICATION * (added / steps[0].step_time_s))
    rates = [
        _rate(prepared, placement, times, step) for times, step in zip(levels, steps, strict=True)
    ]
    low, high = _interval(rates, half_width)
    placed = StepOfCell(
        parts=steps[0],
        samples_per_second=rates[0],
        low=low,
        high=high,
        basis=scaling_basis(placement) if placement.count > 1 else None,
    )
    return estimate_of(prepared, placement, predictions, placed)


def _rate(
    prepared: PreparedJob, placement: ResolvedPlacement, times: list[float], step: StepNumbers
) -> float:
    """Return samples per second of all replicas, as :func:`.replicas.throughput`."""
    samples = prepared.samples
    if prepared.job.mode is Mode.TRAINING:
        return placement.count * samples / step.step_time_s
    return sum(count * samples / time for count, time in zip(placement.counts, times, strict=True))


def _interval(rates: list[float], half_width: float) -> tuple[float, float]:
    """Return the ends of an interval, as :func:`.answer.interval`."""
    rate, at_low, at_high = rates
    below, above = at_high / rate, at_low / rate
    if half_width > 0:
        below = math.exp(-math.hypot(math.log(below), half_width))
        above = math.exp(math.hypot(math.log(above), half_width))
    return min(rate * below, rate), max(rate * above, rate)

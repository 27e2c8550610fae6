"""One job on whole accelerators in data parallel, on plain numbers: what most questions ask.

The equations are those of :mod:`.placed`; arrays of one cell would take twenty times as long as its
numbers. A test holds both to the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.columns import scaling_basis
from perfmodel.estimator.placing.replicas import OF_COMMUNICATION, OF_SCALING
from perfmodel.estimator.placing.steps import CellStep
from perfmodel.estimator.single.step_model import StepPrediction
from perfmodel.placement.data_parallel.one_step import OneReplicaGroup
from perfmodel.placement.step_parts import StepNumbers
from perfmodel.types import LADDER, RUNG, Mode


def is_plain(prepared: PreparedJob, placement: ResolvedPlacement) -> bool:
    """Tell whether :func:`plain_step` answers for a job on a placement."""
    if placement.count == 1 or not placement.is_plain:
        return placement.is_plain
    # Parameters that are gathered in inference are asked about too rarely for a form of their own.
    gathered = prepared.job.mode is Mode.INFERENCE and placement.fabric.plan.zero_stage == 3
    return not (prepared.has_plan_engine or gathered)


def plain_step(
    prepared: PreparedJob, placement: ResolvedPlacement, predictions: Sequence[StepPrediction]
) -> CellStep:
    """Return the step of a job on a placement that :func:`is_plain`.

    Parameters
    ----------
    predictions : sequence of StepPrediction
        On one accelerator of each kind of the placement, in order.
    """
    times = [p.time_s for p in predictions]
    lows, highs = [p.low_s for p in predictions], [p.high_s for p in predictions]
    samples, wide = prepared.samples, 0.0
    if prepared.job.mode is Mode.TRAINING:
        step, at_low_s, at_high_s = _steps(prepared, placement, max(times), max(lows), max(highs))
        all_samples, step_time_s = placement.count * samples, step.step_time_s
        rate = all_samples / step_time_s
        at_low, at_high = all_samples / at_low_s, all_samples / at_high_s
        if placement.count > 1:
            added = step.exposed_communication_s + step.overhead_s
            wide = math.hypot(OF_SCALING, OF_COMMUNICATION * (added / step_time_s))
    else:
        # Replicas of inference do not wait for each other: the slowest is stated.
        step = StepNumbers(max(times))
        rate, at_low, at_high = (
            sum(
                [count * samples / time for count, time in zip(placement.counts, each, strict=True)]
            )
            for each in (times, lows, highs)
        )
    rung = max([RUNG[p.basis] for p in predictions])
    if placement.count > 1:
        rung = max(rung, RUNG[scaling_basis(placement)])
    low, high = _interval(rate, at_low, at_high, wide)
    return CellStep(
        parts=step, step_time_s=step.step_time_s, samples_per_second=rate, low=low, high=high,
        basis=LADDER[rung],
    )  # fmt: skip


def _steps(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    alone_s: float,
    at_low_s: float,
    at_high_s: float,
) -> tuple[StepNumbers, float, float]:
    """Return the step of replicas, and how long it takes at both ends of the time alone."""
    if placement.count == 1:
        return StepNumbers(alone_s), at_low_s, at_high_s
    group = OneReplicaGroup(
        prepared.step.bucket_numbers,
        placement.world_costs,
        prepared.straggler,
        zero_stage=placement.fabric.plan.zero_stage,
        accumulation_steps=prepared.job.accumulation_steps,
    )
    step = group.step(alone_s)
    return step, group.step(at_low_s).step_time_s, group.step(at_high_s).step_time_s


def _interval(rate: float, at_low: float, at_high: float, half_width: float) -> tuple[float, float]:
    """Return the ends of an interval, as :func:`.steps.interval`."""
    below, above = at_high / rate, at_low / rate
    if half_width > 0:
        below = math.exp(-math.hypot(math.log(below), half_width))
        above = math.exp(math.hypot(math.log(above), half_width))
    return min(rate * below, rate), max(rate * above, rate)

"""Replicas of a job in data parallel: from the time of one accelerator to the step of all.

The same law in columns, many jobs on many placements at once, and on plain numbers for the single
cell that most questions ask; arrays of one cell would take twenty times as long as its numbers. A
test holds both to the same answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import CellStep, Steps
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.slowdowns import Slowdown
from perfmodel.features.arrays import FloatArray, Numbers, PlainNumbers
from perfmodel.placement.data_parallel.data_parallel import DataParallelCells, Sharding
from perfmodel.placement.data_parallel.gathered_pass import gathered_pass_parts
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets
from perfmodel.placement.data_parallel.streams import one_step
from perfmodel.placement.estimate import StepNumbers, StepParts
from perfmodel.placement.fabric.groups import CommGroups
from perfmodel.placement.fabric.rank_groups import Dimension
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import LADDER, RUNG, Basis, Mode

#: Half width in logarithms of the time that communication adds, where its links were fitted; of
#: data-parallel steps left out, and of a step as a whole. Over other links it is not known, so that
#: several accelerators are never surer than one (:func:`no_surer`).
OF_COMMUNICATION, OF_SCALING = 0.45, 0.05


def wait_for_each_other(mode: Mode, zero_stage: int) -> bool:
    """Tell whether replicas finish together: those that train, or hold parts of the parameters.

    Parameters
    ----------
    zero_stage : int
        In inference there are neither gradients nor an optimizer, so that stages 1 and 2 share
        nothing.
    """
    return mode is Mode.TRAINING or zero_stage == 3


def replica_parts(
    times_s: Sequence[FloatArray],
    groups: CommGroups,
    buckets: GradientBuckets,
    *,
    mode: Mode,
    zero_stage: int = 0,
    accumulation_steps: int = 1,
    straggler: npt.ArrayLike | None = None,
    sharing: Sharding | None = None,
) -> StepParts:
    """Return the parts of the steps of equal batches on accelerators of some kinds.

    Parameters
    ----------
    times_s : sequence of ndarray
        Step time of one replica on each kind, seconds; of one shape.
    groups : CommGroups
        All accelerators of each cell; broadcasts against the times.
    buckets : GradientBuckets
        One job, or one for each row of the times.
    straggler : array_like or None
        Relative spread of the ranks' times, which broadcasts against the times.
    sharing : Sharding or None
        How training shares, where that is not the usual way.

    Returns
    -------
    StepParts
        Replicas of inference that hold all parameters do not wait for each other: the slowest is
        stated.
    """
    slowest = np.asarray(np.maximum.reduce(list(times_s)))
    # One rank shares nothing; left out early, since most cells of some schedulers are such.
    if np.all(groups.ranks == 1) or not wait_for_each_other(mode, zero_stage):
        return StepParts.of(slowest)
    if mode is Mode.INFERENCE:
        return gathered_pass_parts(buckets, slowest, groups)
    return DataParallelCells(buckets, slowest, groups, sharing=sharing).parts(
        zero_stage=zero_stage, accumulation_steps=accumulation_steps, straggler=straggler
    )


def throughput(
    times_s: Sequence[FloatArray],
    counts: Sequence[FloatArray | float],
    step_time_s: FloatArray,
    *,
    mode: Mode,
    samples: FloatArray | float,
    zero_stage: int = 0,
) -> FloatArray:
    """Return samples per second of all replicas.

    Parameters
    ----------
    times_s : sequence of ndarray
        Step time of one replica on each kind, alone.
    counts : sequence
        Replicas on each kind.
    step_time_s : ndarray
        Step of the whole job; what it takes beyond the slowest replica every replica of inference
        takes too.
    samples : ndarray or float
        Samples of one replica and step.

    Examples
    --------
    Two accelerators that need 0.1 s and one that needs 0.2 s, for 8 samples each: a training step
    takes 0.2 s for 24 samples; serving gives 2 * 80 + 40 samples/s.

    >>> times = [np.array([0.1]), np.array([0.2])]
    >>> step = np.array([0.2])
    >>> throughput(times, [2, 1], step, mode=Mode.TRAINING, samples=8).tolist()
    [120.0]
    >>> throughput(times, [2, 1], step, mode=Mode.INFERENCE, samples=8).tolist()
    [200.0]
    """
    if wait_for_each_other(mode, zero_stage):
        replicas = np.asarray(np.add.reduce([np.asarray(c, dtype=np.float64) for c in counts]))
        return np.asarray(replicas * samples / step_time_s)
    beyond = step_time_s - np.maximum.reduce(list(times_s))
    rates = [c * samples / (time + beyond) for c, time in zip(counts, times_s, strict=True)]
    return np.asarray(np.add.reduce(rates))


def half_width(parts: StepParts, several: npt.NDArray[np.bool_] | bool) -> FloatArray:
    """Return the half width in logarithms that scaling to several accelerators adds."""
    added = parts.exposed_communication_s + parts.overhead_s
    share = added / parts.step_time_s
    wide = np.hypot(OF_SCALING, OF_COMMUNICATION * share)
    return np.asarray(np.where(several, wide, 0.0))


def no_surer(rates: Numbers, slowest: Numbers, of: Any) -> list[Numbers]:
    """Return rates of which the ends lie as far off as those of the slowest accelerator alone.

    What links add does not grow with the time of an accelerator, so that a step is less off than
    that, in proportion; but what they add is not known better than what the accelerator takes.

    Parameters
    ----------
    rates, slowest : sequence of three
        Samples per second of all, and seconds of one: as predicted, and with the low and the high
        end of the time on one accelerator.
    of : module or type
        ``numpy`` for columns, :class:`.PlainNumbers` for one.

    Examples
    --------
    One accelerator takes 1 s, at least 0.5 s and at most 2 s; links another second. With that
    left as it is, the ends would be 1 / 1.5 and 1 / 3 steps/s; they are 1 and 1 / 4.

    >>> no_surer([1 / 2, 1 / 1.5, 1 / 3], [1.0, 0.5, 2.0], PlainNumbers)
    [0.5, 1.0, 0.25]
    """
    (rate, at_low, at_high), (time_s, low_s, high_s) = rates, slowest
    return [
        rate,
        of.maximum(at_low, rate * (time_s / low_s)),
        of.minimum(at_high, rate * (time_s / high_s)),
    ]


#: What is predicted of a job on one accelerator, by the name of the accelerator.
Predictions = Mapping[str, Prediction]
#: What is predicted of the time on one accelerator: itself, and its low and high end.
_LEVELS = (attrgetter("time_s"), attrgetter("low_s"), attrgetter("high_s"))


def replicated_steps(
    jobs: Sequence[PreparedJob], predictions: Sequence[Predictions], columns: ReplicaColumns
) -> Steps:
    """Return the steps of equal replicas, jobs along rows and placements along columns."""
    job, stage = jobs[0].job, columns.zero_stage
    kinds = range(len(columns.accelerators[0]))
    # The time alone and its ends stand along an axis between: what links take is the same for all.
    times = [
        np.stack([columns.facts(predictions, k, of, math.nan) for of in _LEVELS], axis=1)
        for k in kinds
    ]
    all_parts = replica_parts(
        times, columns.groups, GradientBuckets.join([one.step.buckets for one in jobs]),
        mode=job.mode, zero_stage=stage, accumulation_steps=job.accumulation_steps,
        straggler=np.array([[[one.straggler]] for one in jobs]),
    )  # fmt: skip
    rates = throughput(
        times, columns.counts, all_parts.step_time_s, mode=job.mode, zero_stage=stage,
        samples=np.array([[[float(one.samples)]] for one in jobs]),
    )  # fmt: skip
    parts, levels = all_parts.take(np.s_[:, 0]), rates.swapaxes(0, 1)
    several = columns.groups.ranks > 1
    waits = several & wait_for_each_other(job.mode, stage)
    slowest = np.maximum.reduce(times).swapaxes(0, 1)
    rate, at_low, at_high = np.where(waits, no_surer(levels, slowest, np), levels)
    wide = half_width(parts, waits)
    low, high = interval(rate, at_low, at_high, wide)
    scaling = np.where(columns.hosts == 1, RUNG[Basis.INTERPOLATED], RUNG[Basis.EXTRAPOLATED])
    rungs = [columns.facts(predictions, k, lambda p: RUNG[p.basis], -1) for k in kinds]
    return Steps(
        parts=parts,
        step_time_s=parts.step_time_s,
        samples_per_second=rate,
        low=low,
        high=high,
        half_width=np.hypot(np.log(at_low / at_high) / 2, wide),
        rung=np.maximum(np.max(rungs, axis=0), np.where(several, scaling, -1)).astype(np.int8),
    )


def sharing_of(
    prepared: PreparedJob, placement: ResolvedPlacement
) -> tuple[CommGroups, Sharding | None]:
    """Return the ranks that share shards or gradients, and how, where that is not the usual way."""
    mixed, hybrid = prepared.job.mixed_precision, placement.fabric.plan.replicate > 1
    if mixed is None and not hybrid:
        return placement.fabric.world, None
    fabric = placement.fabric
    return (
        fabric.slowest_group(Dimension.SHARD) if hybrid else fabric.world,
        Sharding(
            across=fabric.slowest_group(Dimension.REPLICATE) if hybrid else None,
            reduced=1.0 if mixed is None else mixed.reduced_over_computed,
        ),
    )


def is_replicated(prepared: PreparedJob, placement: ResolvedPlacement) -> bool:
    """Tell whether :func:`plain_step` answers for a job on a placement."""
    if placement.count == 1 or not placement.is_replicated:
        return placement.is_replicated
    # Parameters that are gathered in inference are asked about too rarely for a form of their own.
    gathered = prepared.job.mode is Mode.INFERENCE and placement.fabric.plan.zero_stage == 3
    return prepared.is_usual and not gathered


def plain_step(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[Prediction],
    slow: Sequence[Slowdown] = (),
) -> CellStep:
    """Return the step of a job on a placement that :func:`is_replicated`.

    Parameters
    ----------
    predictions : sequence of Prediction
        On one accelerator of each kind of the placement, in order.
    slow : sequence of Slowdown
        What slows each of them down; empty where nothing does.
    """
    times = [p.time_s for p in predictions]
    lows, highs = [p.low_s for p in predictions], [p.high_s for p in predictions]
    samples, wide, rungs = prepared.samples, 0.0, [RUNG[p.basis] for p in predictions]
    if slow:
        times, lows, highs = (
            [time * one.factor for time, one in zip(each, slow, strict=True)]
            for each in (times, lows, highs)
        )
        rungs += [RUNG[one.basis] for one in slow if one.basis is not None]
    if prepared.job.mode is Mode.TRAINING:
        slowest = [max(times), max(lows), max(highs)]
        steps = one_step(
            prepared.step.bucket_numbers, placement.fabric.world_group, slowest,
            straggler=prepared.straggler, zero_stage=placement.fabric.plan.zero_stage,
            accumulation_steps=prepared.job.accumulation_steps,
        )  # fmt: skip
        step, all_samples = steps[0], placement.count * samples
        rate, at_low, at_high = [all_samples / one.step_time_s for one in steps]
        if placement.count > 1:
            rate, at_low, at_high = no_surer([rate, at_low, at_high], slowest, PlainNumbers)
            added = step.exposed_communication_s + step.overhead_s
            wide = math.hypot(OF_SCALING, OF_COMMUNICATION * (added / step.step_time_s))
    else:
        # Replicas of inference do not wait for each other: the slowest is stated.
        step = StepNumbers(max(times))
        rate, at_low, at_high = (
            sum([n * samples / time_s for n, time_s in zip(placement.counts, each, strict=True)])
            for each in (times, lows, highs)
        )
    if placement.count > 1:
        rungs.append(RUNG[placement.scaling_basis])
    if slow:
        wide = math.hypot(wide, max([one.half_width for one in slow]))
    low, high = _interval(rate, at_low, at_high, wide)
    return CellStep(
        parts=step, step_time_s=step.step_time_s, samples_per_second=rate, low=low, high=high,
        half_width=math.hypot(math.log(at_low / at_high) / 2, wide), basis=LADDER[max(rungs)],
        slowdowns=tuple(slow),
    )  # fmt: skip


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


def _interval(rate: float, at_low: float, at_high: float, half_width: float) -> tuple[float, float]:
    """Return the ends of an interval, as :func:`interval`."""
    below, above = at_high / rate, at_low / rate
    if half_width > 0:
        below = math.exp(-math.hypot(math.log(below), half_width))
        above = math.exp(math.hypot(math.log(above), half_width))
    return min(rate * below, rate), max(rate * above, rate)

"""Captured jobs on placements: from the time on one accelerator to the step of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.cells import Cell, CellStep
from perfmodel.estimator.placing.offloading import HALF_WIDTH, offload_warnings, offloaded
from perfmodel.estimator.placing.replicas import (
    half_width,
    interval,
    is_replicated,
    no_surer,
    plain_step,
    replica_parts,
    sharing_of,
    throughput,
    wait_for_each_other,
)
from perfmodel.estimator.placing.slowdowns import (
    NeighbourLoad,
    Slowdown,
    beside,
    load_alone,
    neighbours,
    said_of_guesses,
    slowdown_on,
)
from perfmodel.estimator.placing.split_replica import part_of_one, split_step, split_warnings
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.feeding.batch_split import AffineSteps, proportional_split
from perfmodel.placement.feeding.input_pipeline import input_stall
from perfmodel.placement.feeding.input_samples import SampleCost, cost_of_graph
from perfmodel.placement.topology.topology import BatchSplit
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis, Mode, weakest

#: How many times as fast or as slow as taken what is loaded may arrive: where samples are guessed
#: from the graph, and where their bytes and seconds are stated.
_GUESSED_FEED, _STATED_FEED = 2.0, 1.25


def predicted_cell(core: Core, prepared: PreparedJob, placement: ResolvedPlacement) -> Cell:
    """Return a job on a placement, with what is predicted of it and of the jobs beside it."""
    part = part_of_one(core, prepared, placement)
    pairs = [(part or prepared, accelerator) for accelerator in placement.accelerators]
    others = neighbours(core, placement) if placement.is_slowed else ()
    return Cell(prepared, placement, core.predictions(pairs), others, part)


def captured_step(cell: Cell) -> CellStep:
    """Return the step of a captured job on a placement.

    Replicas are answered on plain numbers, as :func:`.replicas.replicated_steps` answers many of
    them in columns, and all else in blocks; the law is the same.

    Raises
    ------
    InvalidPlacementError
        A plan that splits a model of which no dimensions are known, or a limit that no model
        covers.
    """
    prepared, placement, predictions, others, _ = cell
    place = plain_step if is_replicated(prepared, placement) else placed_step
    if not placement.is_slowed:
        return place(prepared, placement, predictions)
    slow = _slowdowns(cell.carried, placement, predictions, others)
    step = place(prepared, placement, predictions, slow)
    return _shared(step, cell.carried, placement, predictions, others) if others else step


@dataclass(frozen=True, kw_only=True, slots=True)
class _Levels:
    """A step as predicted, and at the low and at the high end of the time on one accelerator.

    Parameters
    ----------
    parts : StepParts
        Arrays of shape (3,).
    half_width : float
        What the placement adds to the half width of the interval, in logarithms.
    basis : Basis or None
        The best that the answer can rest on; None where the time of one accelerator decides.
    """

    parts: StepParts
    rates: FloatArray
    half_width: float = 0.0
    basis: Basis | None = None
    warnings: tuple[str, ...] = ()


def placed_step(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[Prediction],
    slow: Sequence[Slowdown] = (),
) -> CellStep:
    """Return the step of a job, whatever its placement says; as :func:`.replicas.plain_step`."""
    alone = [np.array([p.time_s, p.low_s, p.high_s]) for p in predictions]
    times = alone
    if slow:
        times = [time * one.factor for time, one in zip(alone, slow, strict=True)]
    if placement.is_split or (placement.count > 1 and prepared.is_language_model):
        slowed = float(np.max(times, axis=0)[0] / np.max(alone, axis=0)[0])
        found = _split(prepared, placement, times, slowed)
    else:
        found = _several(prepared, placement, times)
    said = split_warnings(prepared, placement) if placement.is_split else ()
    if placement.fabric.plan.offload:
        found = _offloaded(prepared, placement, found)
        said += offload_warnings(placement)
    wide = math.hypot(found.half_width, max([0.0, *(s.half_width for s in slow)]))
    basis = weakest([found.basis, *(s.basis for s in slow)])
    found = _fed(prepared, placement, replace(found, half_width=wide, basis=basis))
    rate, at_low, at_high = found.rates.tolist()
    low, high = interval(rate, at_low, at_high, found.half_width)
    parts = found.parts.at(0)
    return CellStep(
        parts=parts,
        step_time_s=parts.step_time_s,
        samples_per_second=rate,
        low=float(low),
        high=float(high),
        half_width=math.hypot(math.log(at_low / at_high) / 2, found.half_width),
        basis=weakest([*(p.basis for p in predictions), found.basis]) or Basis.DEFAULT,
        warnings=(*found.warnings, *said),
        slowdowns=tuple(slow),
    )


def _shared(
    step: CellStep,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[Prediction],
    neighbours: Sequence[Sequence[NeighbourLoad]],
) -> CellStep:
    """Add what the neighbours suffer, on the kind where that is most, and what they hold."""
    each = [
        beside(placement, kind, load_alone(prepared, kind.accelerator, prediction.time_s), jobs)
        for kind, prediction, jobs in zip(placement.kinds, predictions, neighbours, strict=True)
    ]
    # Where it is not known what a neighbour holds, that is something.
    held = [
        sum(1.0 if n.memory_bytes is None else n.memory_bytes for n in jobs) for jobs in neighbours
    ]
    unknown = {n.name for jobs in neighbours for n in jobs if n.memory_bytes is None}
    said = (UNKNOWN_MEMORY_WARNING.format(", ".join(sorted(unknown))),) if unknown else ()
    return step._replace(
        neighbours=tuple(
            max(on_kinds, key=lambda n: n.slowdown) for on_kinds in zip(*each, strict=True)
        ),
        neighbour_bytes=max(held, default=0.0),
        warnings=(*said, *said_of_guesses(neighbours), *step.warnings),
    )


def _slowdowns(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[Prediction],
    neighbours: Sequence[Sequence[NeighbourLoad]],
) -> list[Slowdown]:
    limited = placement.placement.power_limit_w is not None
    shared = neighbours or [()] * len(placement.kinds)
    found = []
    for kind, prediction, jobs in zip(placement.kinds, predictions, shared, strict=True):
        if kind.part is None and not limited and not jobs:
            found.append(Slowdown())
        else:
            load = load_alone(prepared, kind.accelerator, prediction.time_s)
            found.append(slowdown_on(placement, kind, load, [job.load for job in jobs]))
    return found


def _several(
    prepared: PreparedJob, placement: ResolvedPlacement, times: Sequence[FloatArray]
) -> _Levels:
    """Return the step of replicas, each of which holds the whole model."""
    job, several = prepared.job, placement.count > 1
    stage = placement.fabric.plan.zero_stage
    dealt = _dealt(prepared, placement, times)
    groups, sharing = sharing_of(prepared, placement)
    parts = replica_parts(
        times if dealt is None else [dealt],
        groups,
        prepared.step.buckets if job.trains_all else prepared.step.gathered_units,
        mode=job.mode,
        zero_stage=stage,
        accumulation_steps=job.accumulation_steps,
        straggler=prepared.straggler,
        sharing=sharing,
    )
    rates = throughput(
        times if dealt is None else [dealt] * len(times),
        placement.counts,
        parts.step_time_s,
        mode=job.mode,
        samples=prepared.samples,
        zero_stage=stage,
    )
    communicates = several and wait_for_each_other(job.mode, stage)
    if communicates:
        rates = np.array(no_surer(rates, np.max(times, axis=0) if dealt is None else dealt, np))
    return _Levels(
        parts=parts,
        rates=rates,
        half_width=float(half_width(parts, communicates)[0]),
        basis=placement.scaling_basis if several else None,
    )


def _dealt(
    prepared: PreparedJob, placement: ResolvedPlacement, times: Sequence[FloatArray]
) -> FloatArray | None:
    """Return the step when unequal replicas get what lets all finish together; None if equal.

    The optimizer works on every replica alike; all the rest is taken as growing with the batch.
    """
    plan = placement.fabric.plan
    if plan.batch_split is not BatchSplit.PROPORTIONAL or len(times) < 2:
        return None
    if prepared.job.mode is not Mode.TRAINING:
        return None
    fixed = prepared.step.profile.optimizer_share
    found = []
    for level in range(len(times[0])):
        each = np.repeat([time[level] for time in times], placement.counts)
        steps = AffineSteps.with_overhead(prepared.samples, each, fixed * each)
        found.append(proportional_split(prepared.samples * placement.count, steps).step_time_s)
    return np.array(found)


def _split(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    times: Sequence[FloatArray],
    slowed: float,
) -> _Levels:
    """Return the step of replicas that are split, or that the equations for plans answer."""
    dealt = None if placement.is_split else _dealt(prepared, placement, times)
    slowest = np.asarray(np.maximum.reduce(list(times))) if dealt is None else dealt
    parts, half_width = split_step(prepared, placement, slowest, slowed)
    samples = float((placement.fabric.plan.data or 1) * prepared.samples)
    rates = np.asarray(samples / parts.step_time_s)
    # Equations that need no time on one accelerator are as sure as they were found to be.
    if np.ptp(rates) > 0:
        rates = np.array(no_surer(rates, slowest, np))
    return _Levels(
        parts=parts,
        rates=rates,
        half_width=half_width,
        basis=placement.scaling_basis,
    )


def _offloaded(prepared: PreparedJob, placement: ResolvedPlacement, placed: _Levels) -> _Levels:
    """Add what is copied to and from the memory of the host, and updated there."""
    parts, share = offloaded(prepared, placement, placed.parts)
    longer = parts.step_time_s / placed.parts.step_time_s
    return replace(
        placed,
        parts=parts,
        rates=placed.rates / longer,
        half_width=math.hypot(placed.half_width, HALF_WIDTH * share),
        basis=weakest([placed.basis, Basis.ANALYTICAL]),
    )


def _fed(prepared: PreparedJob, placement: ResolvedPlacement, placed: _Levels) -> _Levels:
    """Add what the step waits for its data."""
    if not placement.states_feeding:
        return placed
    plan = placement.fabric.plan
    ranks = plan.tensor * plan.pipeline * plan.context
    # What the fullest host loads for a step.
    samples = prepared.samples * max(1.0, placement.fullest_host / ranks)
    # As taken, and at the low and at the high end of what loading may take: a sample that takes
    # twice as long is two.
    is_stated = {"stored_bytes", "cpu_s"} <= (prepared.job.input or {}).keys()
    off = _STATED_FEED if is_stated else _GUESSED_FEED
    feeds = samples * np.array([1.0, 1.0 / off, off])
    stall = input_stall(placement.placement, _sample(prepared), feeds, placed.parts.step_time_s)
    if not stall.any():
        return placed
    parts = replace(placed.parts, input_stall_s=stall)
    longer = parts.step_time_s / placed.parts.step_time_s
    fed = replace(placed, parts=parts, rates=placed.rates / longer)
    if not stall[0]:
        return fed
    return replace(
        fed,
        basis=weakest([placed.basis, Basis.ANALYTICAL]),
        warnings=(*placed.warnings, INPUT_BOUND_WARNING),
    )


def _sample(prepared: PreparedJob) -> SampleCost:
    guessed = cost_of_graph(prepared.step.graph, samples=prepared.job.batch_size)[1]
    stated = prepared.job.input or {}
    return replace(guessed, **{name: float(value) for name, value in stated.items()})


#: Said of neighbours that are known by their type alone.
UNKNOWN_MEMORY_WARNING = "The memory of {0} is not known; whether all jobs fit together is not."

#: Said where loading takes longer than the step.
INPUT_BOUND_WARNING = (
    "The step waits for its data: loading takes longer than computing. State input, "
    "loader_workers, cpu_cores and storage as they are, or give the job more of them."
)

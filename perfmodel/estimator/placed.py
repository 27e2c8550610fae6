"""One job on one placement: from its time on one accelerator to the step of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.model import StepPrediction
from perfmodel.estimator.replicas import (
    half_width,
    replica_parts,
    throughput,
    wait_for_each_other,
)
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.estimator.slowdowns import Neighbour, Slowdown, beside, load_alone, slowdown_on
from perfmodel.estimator.splits import split_parts
from perfmodel.estimator.step import PreparedJob
from perfmodel.placement.estimate import NeighbourEstimate
from perfmodel.placement.feeding.batch_split import AffineSteps, proportional_split
from perfmodel.placement.feeding.input_pipeline import InputPipeline, input_stall
from perfmodel.placement.feeding.input_samples import SampleCost, cost_of_graph
from perfmodel.placement.step_parts import StepParts
from perfmodel.placement.topology.topology import BatchSplit
from perfmodel.types import Basis, Mode

FloatArray = npt.NDArray[np.float64]

#: How many times as fast or as slow as taken what is loaded may arrive: where samples are guessed
#: from the graph, and where their bytes and seconds are stated.
_GUESSED_FEED, _STATED_FEED = 2.0, 1.25

#: Half width in logarithms of a plan's time over that of one accelerator, of plans left out.
_OF_A_PLAN = 0.18


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedStep:
    """The step of a job on a placement.

    Parameters
    ----------
    parts : StepParts
        Arrays of shape (3,): as predicted, at the low and at the high end of the time on one
        accelerator.
    samples_per_second : ndarray, shape (3,)
    half_width : float
        What the placement adds to the half width of the interval, in logarithms.
    basis : Basis or None
        The best that the answer can rest on; None where the time of one accelerator decides.
    neighbours : tuple of NeighbourEstimate
        What jobs on the same accelerators suffer.
    neighbour_bytes : float
        Memory that they hold of an accelerator, as far as it is known.
    calibrated : bool
        Observed steps of the job were taken into account; the half width is that of the whole.
    slowdowns : tuple of Slowdown
        Of each kind of accelerator.
    """

    parts: StepParts
    samples_per_second: FloatArray
    half_width: float = 0.0
    basis: Basis | None = None
    warnings: tuple[str, ...] = ()
    neighbours: tuple[NeighbourEstimate, ...] = ()
    neighbour_bytes: float = 0.0
    calibrated: bool = False
    slowdowns: tuple[Slowdown, ...] = ()


def place(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    neighbours: Sequence[Sequence[Neighbour]] = (),
) -> PlacedStep:
    """Return the step of a job on a placement.

    Parameters
    ----------
    predictions : sequence of StepPrediction
        On one accelerator of each kind of the placement, in order.
    neighbours : sequence of sequence of Neighbour
        For each kind the jobs beside this one.

    Raises
    ------
    InvalidPlacementError
        A plan that splits a model of which no dimensions are known, or a limit that no model
        covers.
    """
    slow = _slowdowns(prepared, placement, predictions, neighbours)
    times = [
        np.array([p.time_s, p.low_s, p.high_s]) * s.factor
        for p, s in zip(predictions, slow, strict=True)
    ]
    if placement.is_split or (placement.count > 1 and prepared.has_plan_engine):
        placed = _split(prepared, placement, times)
    else:
        placed = _replicated(prepared, placement, times)
    wide = math.hypot(placed.half_width, max(s.half_width for s in slow))
    weakest = _weakest([placed.basis, *(s.basis for s in slow)])
    found = replace(placed, half_width=wide, basis=weakest, slowdowns=tuple(slow))
    if neighbours:
        found = _shared(prepared, placement, predictions, neighbours, found)
    return _fed(prepared, placement, times, found)


def _shared(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    neighbours: Sequence[Sequence[Neighbour]],
    placed: PlacedStep,
) -> PlacedStep:
    """Add what the neighbours suffer, on the kind where that is most, and what they hold."""
    each = [
        beside(placement, kind, load_alone(prepared, kind, prediction.time_s), jobs)
        for kind, prediction, jobs in zip(placement.kinds, predictions, neighbours, strict=True)
    ]
    worst = tuple(max(on_kinds, key=lambda n: n.slowdown) for on_kinds in zip(*each, strict=True))
    held = [sum(n.load.memory_bytes or 0.0 for n in jobs) for jobs in neighbours]
    unknown = {n.name for jobs in neighbours for n in jobs if n.load.memory_bytes is None}
    said = (UNKNOWN_MEMORY_WARNING.format(", ".join(sorted(unknown))),) if unknown else ()
    return replace(
        placed,
        neighbours=worst,
        neighbour_bytes=max(held, default=0.0),
        warnings=(*placed.warnings, *said),
    )


def _slowdowns(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    predictions: Sequence[StepPrediction],
    neighbours: Sequence[Sequence[Neighbour]],
) -> list[Slowdown]:
    limited = placement.placement.power_limit_w is not None
    shared = neighbours or [()] * len(placement.kinds)
    found = []
    for kind, prediction, jobs in zip(placement.kinds, predictions, shared, strict=True):
        if kind.part is None and not limited and not jobs:
            found.append(Slowdown())
        else:
            load = load_alone(prepared, kind, prediction.time_s)
            found.append(slowdown_on(placement, kind, load, [job.load for job in jobs]))
    return found


def _replicated(
    prepared: PreparedJob, placement: ResolvedPlacement, times: Sequence[FloatArray]
) -> PlacedStep:
    job, several = prepared.job, placement.count > 1
    dealt = _dealt(prepared, placement, times)
    parts = replica_parts(
        times if dealt is None else [dealt],
        placement.world,
        prepared.step.buckets,
        mode=job.mode,
        zero_stage=placement.fabric.plan.zero_stage,
        accumulation_steps=job.accumulation_steps,
        straggler=prepared.straggler,
    )
    rate = throughput(
        times if dealt is None else [dealt] * len(times),
        placement.counts,
        parts.step_time_s,
        mode=job.mode,
        samples=prepared.samples,
        zero_stage=placement.fabric.plan.zero_stage,
    )
    communicates = several and wait_for_each_other(job.mode, placement.fabric.plan.zero_stage)
    return PlacedStep(
        parts=parts,
        samples_per_second=rate,
        half_width=float(half_width(parts, communicates)[0]),
        basis=scaling_basis(placement) if several else None,
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


def scaling_basis(placement: ResolvedPlacement) -> Basis:
    """Return the best that an answer for several accelerators can rest on.

    Inside of a host the links of measured machines were fitted; between hosts few were.
    """
    return Basis.INTERPOLATED if placement.fabric.host_count == 1 else Basis.EXTRAPOLATED


def _split(
    prepared: PreparedJob, placement: ResolvedPlacement, times: Sequence[FloatArray]
) -> PlacedStep:
    dealt = None if placement.is_split else _dealt(prepared, placement, times)
    slowest = np.asarray(np.maximum.reduce(list(times))) if dealt is None else dealt
    parts = split_parts(prepared, placement, slowest)
    samples = float((placement.fabric.plan.data or 1) * prepared.samples)
    return PlacedStep(
        parts=parts,
        samples_per_second=np.asarray(samples / parts.step_time_s),
        half_width=_OF_A_PLAN,
        basis=scaling_basis(placement),
    )


def _fed(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    times: Sequence[FloatArray],
    placed: PlacedStep,
) -> PlacedStep:
    """Add what the step waits for its data."""
    asked = placement.placement
    where = (asked.cpu_cores, asked.storage_bytes_per_s, asked.storage_locality)
    if all(fact is None for fact in where):
        return placed
    pipeline = InputPipeline(
        sample=_sample(prepared),
        cpu_cores=asked.cpu_cores,
        workers=asked.loader_workers,
        storage_bytes_per_s=asked.storage_bytes_per_s,
        locality=asked.storage_locality,
    )
    plan = placement.fabric.plan
    ranks = plan.tensor * plan.pipeline * plan.context
    fullest = max(hosts.count for hosts in placement.fabric.hosts)
    samples = prepared.samples * max(1.0, fullest / ranks)
    # As taken, and at the low and at the high end of what loading may take: a sample that takes
    # twice as long is two.
    is_stated = {"stored_bytes", "cpu_s"} <= (prepared.job.input or {}).keys()
    off = _STATED_FEED if is_stated else _GUESSED_FEED
    feeds = samples * np.array([1.0, 1.0 / off, off])
    stall = input_stall(pipeline, feeds, placed.parts.step_time_s)
    if not stall.any():
        return placed
    parts = replace(placed.parts, input_stall_s=stall)
    longer = parts.step_time_s / placed.parts.step_time_s
    fed = replace(placed, parts=parts, samples_per_second=placed.samples_per_second / longer)
    if not stall[0]:
        return fed
    return replace(
        fed,
        basis=_weakest([placed.basis, Basis.ANALYTICAL]),
        warnings=(*placed.warnings, INPUT_BOUND_WARNING),
    )


def _sample(prepared: PreparedJob) -> SampleCost:
    guessed = cost_of_graph(prepared.step.graph, samples=prepared.captured_samples)[1]
    stated = prepared.job.input or {}
    return replace(guessed, **{name: float(value) for name, value in stated.items()})


def _weakest(bases: Sequence[Basis | None]) -> Basis | None:
    stated = [basis for basis in bases if basis is not None]
    return max(stated, key=list(Basis).index) if stated else None


#: Said of neighbours that are known by their type alone.
UNKNOWN_MEMORY_WARNING = "The memory of {0} is not known; whether all jobs fit together is not."

#: Said where loading takes longer than the step.
INPUT_BOUND_WARNING = (
    "The step waits for its data: loading takes longer than computing. State input, "
    "loader_workers, cpu_cores and storage as they are, or give the job more of them."
)

"""Goodput of a job that may change its batch: throughput times statistical efficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from perfmodel.client.answers import Batch
from perfmodel.errors import InvalidInputError, InvalidPlacementError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.guessed_rows import is_weighed
from perfmodel.estimator.evidence.observed import corrected_at_batches
from perfmodel.estimator.evidence.observed_job import ObservedJob, bounds_of, tight_of
from perfmodel.estimator.evidence.tight_cells import TightCells
from perfmodel.estimator.job_types.job_type import ObservedJobType
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.memory import memory_on
from perfmodel.estimator.placing.replicas import replica_parts, sharing_of
from perfmodel.estimator.placing.split_replica import answered_parts
from perfmodel.estimator.single.plan_engine import needs_no_single, transformer_training
from perfmodel.estimator.tables.estimates import answer_cell, computing_s, on_one_of_each
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.graph.job import Job
from perfmodel.json_values import MAX_COUNT
from perfmodel.placement.calibration.observation import RAN_OUT_S
from perfmodel.placement.data_parallel.gradient_buckets import GradientBuckets
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.feeding.batch_split import AffineSteps
from perfmodel.placement.feeding.goodput import (
    BatchAdaptation,
    StepTimes,
    best_batch,
    candidates,
)
from perfmodel.placement.plans.plan_answer import job_choice, plan_answer
from perfmodel.placement.topology.topology import BatchSplit
from perfmodel.types import Mode

#: Of a batch that does not fit where it was taken to, this much is tried next at most; so near
#: is looked for the largest that does.
_FEWER = 0.97
#: How many times as large as its neighbour a batch is that a job is asked about.
_FAR = 4


def best_goodput(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
) -> Batch:
    """Return the batch of the greatest goodput of a job on a placement.

    Its step is asked for at its own batch and at some others, as far as batches are asked about and
    fit; between neighbours its time on one accelerator is taken as affine in the batch. At its own
    batch the step is predicted as :func:`.estimates.answer_cell` says, loading included; by as much
    as that differs the steps of all batches do. What was observed corrects each of them as it does
    answers.

    Raises
    ------
    InvalidInputError
        The job states no adaptation, does not train, or no batch lies within its bounds and fits.
    """
    stated = stated_adaptation(prepared.job, placement)
    own = one_micro_batch(core, prepared.job)
    room = BatchRoom(core=core, own=own, placement=placement, observed=observed)
    most = room.most_samples()
    within, _ = candidates(adaptation_of(stated, most), placement.count)
    said = at_some_batches(core, own, within.tolist())
    bare_own = bare_step(core, own)
    steps = ReplicaSteps.of(core, bare_own, [bare_step(core, one) for one in said], placement)
    known = answer_cell(core, bare_own, placement)
    affine_s = steps(np.array([own.job.batch_size]), np.array([1])).step_time_s
    factor = computing_s(known) / float(affine_s[0])
    # Loading takes as much longer as there are more samples.
    fed_s = known.step_time_s / own.job.batch_size if known.breakdown.input_stall_s > 0 else 0.0

    def step_times(batch: IntArray, accumulation: IntArray) -> FloatArray:
        parts = steps(batch, accumulation).each(lambda part: factor * part)
        stall_s = np.maximum(fed_s * batch * accumulation - parts.step_time_s, 0.0)
        corrected = corrected_at_batches(
            core, said, observed, [placement], replace(parts, input_stall_s=stall_s),
            batch_size=batch, micro_batches=accumulation,
        )  # fmt: skip
        return corrected.step_time_s

    times = _that_fit(tight_of(observed), placement, step_times)
    while True:
        found = best_batch(adaptation_of(stated, most), placement.count, times)
        if room.fits(found.batch_size, found.accumulation_steps):
            return found
        most = room.fewer_samples(most, found)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchRoom:
    """Which batches of a job fit a placement, as its answers say.

    Parameters
    ----------
    own : PreparedJob
        At its own batch, one micro-batch.
    """

    core: Core
    own: PreparedJob
    placement: ResolvedPlacement
    observed: ObservedJob | None

    def fits(self, batch_size: int, accumulation_steps: int) -> bool:
        """Return whether a batch does."""
        asked = self._at(batch_size, accumulation_steps)
        answer = answer_cell(self.core, asked, self.placement, self.observed)
        return answer.memory.fits is not False

    def most_samples(self) -> tuple[int, int]:
        """Return the largest micro-batch that is taken to fit, of one and of several in a step.

        Memory is taken as affine through the job's own batch and four times of it, or a quarter
        where that is more than may be asked about.
        """
        one, several = (self._most(micro_batches) for micro_batches in (1, 2))
        return one, several

    def fewer_samples(self, most: tuple[int, int], found: Batch) -> tuple[int, int]:
        """Return the same where a batch was found not to fit: memory is not quite affine."""
        fails, micro_batches = found.batch_size, min(found.accumulation_steps, 2)
        fewer = int(_FEWER * fails)
        if self._room(fails, micro_batches) < 0:
            fewer = self._edge(fails, micro_batches)
        return (fewer, most[1]) if micro_batches == 1 else (most[0], fewer)

    def _most(self, micro_batches: int) -> int:
        first = self.own.job.batch_size
        other = _FAR * first if _FAR * first <= MAX_COUNT else first // _FAR
        here, there = (self._room(batch, micro_batches) for batch in (first, other))
        most = max(int(first + here / max((here - there) / (other - first), 1.0)), 0)
        return tight_of(self.observed).fewer_samples(self.placement, micro_batches, most)

    def _edge(self, fails: int, micro_batches: int) -> int:
        """Return a batch that fits, near the smallest that does not and below one of those."""
        own = self.own.job.batch_size
        fits = own if own < fails and self._room(own, micro_batches) >= 0 else 0
        while fails - fits > max(1.0, (1 - _FEWER) * fails):
            middle = (fits + fails) // 2
            if self._room(middle, micro_batches) < 0:
                fails = middle
            else:
                fits = middle
        return fits

    def _room(self, batch_size: int, micro_batches: int) -> float:
        """Return by how much the demand may grow where there is least room, bytes."""
        asked = self._at(batch_size, micro_batches)
        bounds = bounds_of(self.observed)
        return min(
            float(replace(memory, bounds=bounds.on(kind.accelerator)).room_bytes[0])
            for kind in self.placement.kinds
            for memory in [memory_on(asked, self.placement, kind)]
        )

    def _at(self, batch_size: int, micro_batches: int) -> PreparedJob:
        return self.core.prepare(self.own.job.at_batch(batch_size, micro_batches))


def bare_step(core: Core, prepared: PreparedJob) -> PreparedJob:
    """Return the same job without what it says of a script: as a calibration reads predictions."""
    return core.prepare(replace(prepared.job, script=None)) if prepared.job.script else prepared


def best_goodput_of_type(of: ObservedJobType, placement: ResolvedPlacement) -> Batch:
    """Return the same of a job type; of its memory it is known where it ran out.

    Raises
    ------
    InvalidInputError
        The job states no adaptation, or no step of it was observed.
    """
    stated = stated_adaptation(of.job, placement)
    if of.own is None or not is_weighed(placement, of.job.mode):
        raise InvalidInputError(
            f"The goodput of the job type {of.job.job_type!r} needs observed steps of it, "
            "on whole accelerators that it does not share; send some.",
            pointer="/job/job_type",
        )

    def step_times(batch: IntArray, accumulation: IntArray) -> FloatArray:
        columns = ReplicaColumns.of([placement] * len(batch))
        parts = of.steps(columns, batch_size=batch, accumulation_steps=1).calibrated.parts
        # Gradients are exchanged in the last micro-batch alone.
        return parts.step_time_s + (accumulation - 1) * parts.compute_s

    most_samples = [of.tight.fewer_samples(placement, count, MAX_COUNT) for count in (1, 2)]
    return best_batch(
        adaptation_of(stated, (most_samples[0], most_samples[1])),
        placement.count,
        _that_fit(of.tight, placement, step_times),
    )


def _that_fit(tight: TightCells, placement: ResolvedPlacement, step_times: StepTimes) -> StepTimes:
    """Let steps never end that are refused by what ran out of memory."""

    def times(batch: IntArray, accumulation: IntArray) -> FloatArray:
        refused = tight.refused(placement, batch, accumulation)
        return np.where(refused, RAN_OUT_S, step_times(batch, accumulation))

    return times


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaSteps:
    """Steps of replicas over batches and micro-batches.

    Parameters
    ----------
    captured : sequence of PreparedJob
        At growing batches; between neighbours, and beyond the ends, steps are affine.
    first, further : tuple of tuple of AffineSteps
        From each of them to the next, of one accelerator of each kind: a step of one micro-batch,
        and what each further micro-batch adds to it.
    prepared : PreparedJob
        At the job's own batch, one micro-batch.
    """

    captured: Sequence[PreparedJob]
    first: tuple[tuple[AffineSteps, ...], ...]
    further: tuple[tuple[AffineSteps, ...], ...]
    placement: ResolvedPlacement
    prepared: PreparedJob

    @classmethod
    def of(
        cls,
        core: Core,
        own: PreparedJob,
        asked: Sequence[PreparedJob],
        placement: ResolvedPlacement,
        *,
        limited: bool = True,
    ) -> ReplicaSteps:
        """Ask for steps on one accelerator of each kind, of one micro-batch and of two.

        Parameters
        ----------
        own : PreparedJob
            At its own batch, one micro-batch.
        asked : sequence of PreparedJob
            The same at growing batches.
        limited : bool
            On as much of each accelerator as the job gets; else on all of it, alone.
        """
        if placement.fabric.plan.offload:
            raise InvalidPlacementError(
                "Over batches nothing is answered of what lies in the memory of the host. Leave "
                "offload out, or ask for the batches one by one.",
                pointer="/placement/plan/offload",
            )

        def alone_s(one: PreparedJob) -> list[float]:
            if limited:
                return [computing_s(answer) for answer in on_one_of_each(core, one, placement)]
            pairs = [(one, spec) for spec in placement.accelerators]
            return [found.time_s for found in core.predictions(pairs)]

        batches = [one.job.batch_size for one in asked]
        once = [alone_s(one) for one in asked]
        twice = [alone_s(core.prepare(one.job.at_batch(one.job.batch_size, 2))) for one in asked]
        added = [(np.array(two) - one).tolist() for one, two in zip(once, twice, strict=True)]
        return cls(
            captured=asked, first=_lines(batches, once), further=_lines(batches, added),
            placement=placement, prepared=own,
        )  # fmt: skip

    def __call__(self, batch: IntArray, accumulation: IntArray) -> StepParts:
        """Return the steps of batches and micro-batches of the same shape."""
        prepared, fabric = self.prepared, self.placement.fabric
        training = transformer_training(prepared) if prepared.is_language_model else None
        if training is None or self.placement.count == 1:
            return self.replicated(batch, accumulation, zero_stage=fabric.plan.zero_stage)
        choices = [
            job_choice(prepared.job.at_batch(b, a), fabric.plan)
            for b, a in zip(batch.tolist(), accumulation.tolist(), strict=True)
        ]
        apart = needs_no_single(prepared, training.on(fabric.accelerators), fabric.plan)
        single_s = None if apart else self.single_s(batch, accumulation)
        return answered_parts(plan_answer(training, fabric, choices, single_s=single_s))

    def single_s(self, batch: IntArray, accumulation: IntArray) -> FloatArray:
        """Return what the slowest accelerator would take alone, all micro-batches."""
        added = (accumulation - 1) * self._at(self.further, batch)
        return np.asarray(self._at(self.first, batch) + added)

    def replicated(self, batch: IntArray, accumulation: IntArray, *, zero_stage: int) -> StepParts:
        """Return the steps of replicas that share gradients, or more of a stage of ZeRO."""
        groups, sharing = sharing_of(self.prepared, self.placement)
        if zero_stage != self.placement.fabric.plan.zero_stage:
            groups, sharing = self.placement.fabric.world, None
        parts = replica_parts(
            [self._at(self.first, batch)], groups, self._buckets(batch),
            mode=Mode.TRAINING, zero_stage=zero_stage,
            straggler=self.prepared.straggler, sharing=sharing,
        )  # fmt: skip
        # Gradients are exchanged in the last micro-batch alone.
        further = (accumulation - 1) * self._at(self.further, batch)
        return replace(parts, compute_s=parts.compute_s + further)

    def _buckets(self, batch: IntArray) -> GradientBuckets:
        """Return the gradients of steps, whose shares are those of parts that are affine too."""
        known = np.array([one.job.batch_size for one in self.captured])
        before = self._segments(batch)
        ends = known[before], known[before + 1]
        part = np.clip((batch - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0)
        few, many = (self._at(self.first, one) for one in ends)
        part = part * many / ((1 - part) * few + part * many)
        buckets = GradientBuckets.join([one.step.buckets for one in self.captured])
        return buckets.between(before, before + 1, part)

    def _segments(self, batch: IntArray) -> IntArray:
        """Return the position of the captured batch that lies before each, but not of the last."""
        inner = [one.job.batch_size for one in self.captured[1:-1]]
        return np.searchsorted(inner, batch, side="right")

    def _at(self, lines: tuple[tuple[AffineSteps, ...], ...], batch: IntArray) -> FloatArray:
        return np.choose(self._segments(batch), [self._on(line, batch) for line in lines])

    def _on(self, lines: tuple[AffineSteps, ...], batch: IntArray) -> FloatArray:
        """Return how long the slowest computes, or all where unequal ones share proportionally."""
        slowest = np.maximum.reduce([line.times_s(batch) for line in lines])
        if self.placement.fabric.plan.batch_split is not BatchSplit.PROPORTIONAL:
            return np.asarray(slowest)
        counts = np.array(self.placement.counts, dtype=np.float64)
        fixed = np.array([line.fixed_s[0] for line in lines])
        each = np.array([line.per_sample_s[0] for line in lines])
        # All finish together: the sum over replicas of (T - a) / c is the global batch.
        together = (batch * counts.sum() + counts @ (fixed / each)) / (counts @ (1 / each))
        return np.asarray(np.clip(together, fixed.max(), slowest))


def _lines(
    batches: Sequence[int], times: Sequence[Sequence[float]]
) -> tuple[tuple[AffineSteps, ...], ...]:
    """Return the lines of each kind from each batch to the next."""
    return tuple(
        tuple(AffineSteps.through(ends, [few], [many]) for few, many in zip(low, high, strict=True))
        for ends, low, high in zip(pairwise(batches), times, times[1:], strict=False)
    )


def stated_adaptation(job: Job, placement: ResolvedPlacement) -> Mapping[str, Any]:
    """Return what a job states about its batches.

    Raises
    ------
    InvalidInputError
        It states nothing, does not train, is one step of one batch, or is split over the
        accelerators.
    """
    if job.adaptation is None or job.mode is not Mode.TRAINING:
        raise InvalidInputError(
            "Goodput is defined for a training job that states its adaptation: "
            "gradient_noise_scale, initial_batch_size and batch_size_bounds.",
            pointer="/job/adaptation",
        )
    if job.graph is not None:
        raise InvalidInputError(
            "A registered graph is a step of one batch: no other can be chosen for it. Name the "
            "model instead.",
            pointer="/job/adaptation",
        )
    if placement.is_split:
        raise InvalidInputError(
            "Goodput is answered for data parallelism; leave the other degrees of the plan out.",
            pointer="/placement/plan",
        )
    return job.adaptation


def one_micro_batch(core: Core, job: Job) -> PreparedJob:
    """Return a job that updates its parameters after each micro-batch."""
    return core.prepare(replace(job, accumulation_steps=1))


def at_some_batches(core: Core, own: PreparedJob, within: Sequence[int]) -> list[PreparedJob]:
    """Return a job of one micro-batch at some batches, between which it is taken to be affine.

    Each is four times the one before, and its own among them, so that placements have them in
    common.

    Parameters
    ----------
    within : sequence of int
        Batches that are asked about: the ends are as far out as these at least.
    """
    first = own.job.batch_size
    known = [max(1, first // _FAR), first, min(_FAR * first, MAX_COUNT)]
    while known[0] > min(within):
        known.insert(0, max(1, known[0] // _FAR))
    while known[-1] < max(within):
        known.append(min(_FAR * known[-1], MAX_COUNT))
    return [core.prepare(replace(own.job, batch_size=batch)) for batch in sorted({*known})]


def adaptation_of(stated: Mapping[str, Any], most_samples: tuple[int, int]) -> BatchAdaptation:
    """Return what a job states about its batches, with what its memory allows.

    Raises
    ------
    InvalidInputError
        Not even one sample fits, or a number outside its range.
    """
    if max(most_samples) < 1:
        raise InvalidInputError(
            "Not even a batch of one sample fits the accelerator.", pointer="/job/batch_size"
        )
    return BatchAdaptation(**stated, most_samples=most_samples)

"""Search the parallel plans of a job on some hardware.

Plans are held to what answers for single placements say: how much longer than their equations they
take, and whether they fit the memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed import corrected_at_batches
from perfmodel.estimator.evidence.observed_job import ObservedJob, bounds_of, tight_of
from perfmodel.estimator.evidence.tight_cells import RAN_OUT_WARNING
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.memory import (
    compiled_columns,
    is_counted_compiled,
    trained_by_core,
)
from perfmodel.estimator.placing.split_replica import (
    SPLIT_BY_MEGATRON_WARNING,
    answered_parts,
    experts_warnings,
    is_left_to_megatron,
)
from perfmodel.estimator.single.plan_engine import needs_no_single, transformer_training
from perfmodel.estimator.tables.estimates import NO_ROOM_WARNING, on_one_of_each
from perfmodel.estimator.tables.goodput import (
    ReplicaSteps,
    at_some_batches,
    bare_step,
    one_micro_batch,
)
from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.graph.job import Job
from perfmodel.placement.estimate import StepParts
from perfmodel.placement.memory.memory import (
    expert_share,
    has_copies,
    kept_otherwise,
    memory_columns,
)
from perfmodel.placement.memory.memory_demand import JobConstants
from perfmodel.placement.memory.memory_parts import (
    MemoryParts,
    MemoryPlan,
    memory_parts,
    micro_batches_in_flight,
)
from perfmodel.placement.memory.memory_profile import MemoryProfile
from perfmodel.placement.plan_steps.plan_cells import (
    Checkpointing,
    PlanChoice,
    PlanColumns,
    ShapeColumns,
)
from perfmodel.placement.plan_steps.plan_memory import plan_memory
from perfmodel.placement.plan_steps.plan_step import PlanStep, plan_step
from perfmodel.placement.plans.compiled_memory import compiled_memory_bytes
from perfmodel.placement.plans.core_memory import core_memory_parts
from perfmodel.placement.plans.plan_answer import (
    TransformerTraining,
    job_choice,
    scaled,
    with_computing,
)
from perfmodel.placement.plans.plan_search import PlanRanking, PlanRoom, search_plans
from perfmodel.placement.topology.topology import Schedule
from perfmodel.types import Mode, Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedRoom:
    """Memory of plans, from captured steps of one micro-batch without recomputation.

    Between their batches activations grow with the micro-batch, but for the copies of parameters
    that automatic mixed precision makes. What recomputation leaves of them is told by the formulas
    for transformers, which spares a capture for each way to recompute; of the copies it leaves
    those of one layer.

    Parameters
    ----------
    own : PreparedJob
        One micro-batch, nothing recomputed.
    placement : ResolvedPlacement
        Of its accelerators the one with the least room counts; its plan does not.
    usual : Checkpointing
        What the job itself recomputes, and so its observed steps.
    observed : ObservedJob or None
        What observed steps of the job say of the memory that it needs.
    """

    core: Core
    training: TransformerTraining
    own: PreparedJob
    placement: ResolvedPlacement
    usual: Checkpointing
    observed: ObservedJob | None

    @classmethod
    def of(
        cls,
        core: Core,
        prepared: PreparedJob,
        placement: ResolvedPlacement,
        training: TransformerTraining,
        observed: ObservedJob | None,
    ) -> CapturedRoom:
        """Capture what the memory of plans follows from, where that is another step."""
        job = replace(
            prepared.job,
            accumulation_steps=1,
            activation_checkpointing=False,
            selective_checkpointing=False,
        )
        return cls(
            core=core,
            training=training,
            own=prepared if job == prepared.job else core.prepare(job),
            placement=placement,
            usual=job_choice(prepared.job, placement.fabric.plan).checkpointing,
            observed=observed,
        )

    def __call__(self, choices: Sequence[PlanChoice]) -> PlanRoom:
        """Return the memory of some plans."""
        needed, fits = np.zeros(len(choices)), np.ones(len(choices), dtype=np.bool_)
        kinds = self.placement.kinds
        bounds = bounds_of(self.observed)
        counted = [is_counted_compiled(self.own, kind.accelerator) for kind in kinds]
        replicas = PlanColumns.of(choices).data
        for constants, rows, parts in self._parts_of(choices):
            for kind, compiled in zip(kinds, counted, strict=True):
                if compiled:
                    continue
                found = memory_columns(
                    parts, [kind.held] * len(rows), constants=constants, replicas=replicas[rows]
                )
                found = replace(found, bounds=bounds.on(kind.accelerator))
                needed[rows] = np.maximum(needed[rows], found.peak_bytes)
                fits[rows] &= found.fits
        for kind, compiled in zip(kinds, counted, strict=True):
            if compiled:
                asked = np.array([compiled_memory_bytes(self.training, c) for c in choices])
                needed = np.maximum(needed, asked)
                found = compiled_columns(asked, kind.held)
                fits &= replace(found, bounds=bounds.on(kind.accelerator)).fits
        room = float(min(kind.held.memory_bytes for kind in kinds))
        ran, ran_out = self._observed(choices, fits)
        return PlanRoom(
            needed_bytes=np.where(ran_out, np.maximum(needed, room), needed),
            fits=(fits | ran) & ~ran_out,
            room_bytes=room,
            warnings=(RAN_OUT_WARNING,) if ran_out.any() else (),
        )

    def _observed(
        self, choices: Sequence[PlanChoice], fits: BoolArray
    ) -> tuple[BoolArray, BoolArray]:
        """Return of which plans it was observed that they fit, and of which that they do not.

        What recomputes less needs no less, and what recomputes more no more.

        Parameters
        ----------
        fits : ndarray of bool, shape (plans,)
            As is counted; of what fits by that nobody has to say so.
        """
        found = np.zeros((2, len(choices)), dtype=np.bool_)
        tight = tight_of(self.observed)
        for row, choice in enumerate(choices if tight or tight.ran else ()):
            plan = replace(self.placement.placement, plan=choice.plan)
            cell = self.core.resolve(plan), choice.micro_batch, choice.micro_batches
            again = choice.checkpointing
            found[0, row] = not fits[row] and again >= self.usual and tight.holds(*cell)
            out = tight if again == self.usual else tight.without_single_ones
            found[1, row] = again <= self.usual and out.refuse(*cell)
        return found[0], found[1]

    def _parts_of(
        self, choices: Sequence[PlanChoice]
    ) -> Iterator[tuple[JobConstants, npt.NDArray[np.int64], MemoryParts]]:
        """Yield rows of plans with the memory of their tensors: by who carries them out."""
        core = [trained_by_core(self.own, self.placement, choice.plan) for choice in choices]
        rows = np.flatnonzero([training is not None for training in core])
        if len(rows) and (training := core[rows[0]]) is not None:
            parts = core_memory_parts(training, [choices[row] for row in rows.tolist()])
            yield self.own.memory_constants, rows, parts
        rest = np.flatnonzero([training is None for training in core])
        if not len(rest):
            return
        others = [choices[row] for row in rest.tolist()]
        columns = PlanColumns.of(others)
        left = self._left(columns)
        for prepared, rows, alike in self._alike(others):
            own = columns.take(rows)
            growth = self._growth(prepared, own, alike, left[rows])
            parts = _grown(_parts(prepared, own, alike), growth)
            yield prepared.memory_constants, rest[rows], parts

    def _alike(
        self, choices: Sequence[PlanChoice]
    ) -> Iterator[tuple[PreparedJob, npt.NDArray[np.int64], _Alike]]:
        """Yield the rows of plans that are alike, with the captured step of the nearest batch."""
        batches = [choice.micro_batch for choice in choices]
        captured = at_some_batches(self.core, self.own, batches)
        known = np.log([one.job.batch_size for one in captured])
        nearest = np.abs(np.log(batches)[:, None] - known).argmin(axis=1).tolist()
        rows: dict[tuple[int, _Alike], list[int]] = defaultdict(list)
        for row, choice in enumerate(choices):
            recomputes = choice.checkpointing is Checkpointing.FULL
            alike = _Alike(choice.plan.schedule, choice.micro_batches > 1, recomputes)
            rows[nearest[row], alike].append(row)
        for (at, alike), found in rows.items():
            yield captured[at], np.array(found), alike

    def _growth(
        self, prepared: PreparedJob, plans: PlanColumns, alike: _Alike, left: FloatArray
    ) -> FloatArray:
        """Return how many times the activations of a captured step those of plans are.

        Copies of weights that stay are there once, the rest for each micro-batch in flight.
        """
        fixed = _copied_share(prepared)
        larger = plans.micro_batch / prepared.job.batch_size
        if alike.recomputes:
            return np.asarray((1 - fixed) * larger * left + fixed / self.training.shape.layers)
        ahead = micro_batches_in_flight(
            plans.pipeline, plans.micro_batches, alike.schedule, plans.virtual_stages
        )
        rest = (1 - fixed) * ahead
        return np.asarray((rest * larger * left + fixed) / (rest + fixed))

    def _left(self, columns: PlanColumns) -> FloatArray:
        """Return the part of the activations that is left by what is recomputed."""
        training, count = self.training, len(columns.data)
        shape = ShapeColumns.of([training.shape]).take(np.zeros(count, dtype=np.int64))
        numbers = training.numbers.take(np.zeros(count, dtype=np.int64))
        fused = np.full(count, float(training.fused_attention))
        plain = replace(columns, checkpointing=np.full(count, float(Checkpointing.NONE)))
        again, once = (plan_memory(shape, c, numbers, fused).activations for c in (columns, plain))
        return np.asarray(again / once)


class _Alike(NamedTuple):
    """What plans have in common whose memory is counted together.

    Parameters
    ----------
    several : bool
        Micro-batches in a step.
    recomputes : bool
        Whole layers.
    """

    schedule: Schedule
    several: bool
    recomputes: bool


def _parts(prepared: PreparedJob, plan: PlanColumns, alike: _Alike) -> MemoryParts:
    """Return the memory of plans with the activations of a captured step."""
    profile = prepared.memory_profile
    job = replace(prepared.job, activation_checkpointing=alike.recomputes)
    return memory_parts(
        _with_gradients(profile) if alike.several else profile,
        MemoryPlan(
            data=plan.data, tensor=plan.tensor, pipeline=plan.pipeline, context=plan.context,
            expert=plan.expert, expert_share=expert_share(job),
            zero_stage=plan.zero_stage, sequence_parallel=plan.sequence_parallel > 0,
            micro_batches=plan.micro_batches, schedule=alike.schedule,
            virtual_stages=plan.virtual_stages, has_copies=has_copies(job),
            **kept_otherwise(None, job),
        ),
    )  # fmt: skip


def _copied_share(prepared: PreparedJob) -> float:
    """Return the part of the activations of a step that are parameters in 16 bits.

    Experts are cast one by one, so that their copies do not stay.
    """
    profile = prepared.memory_profile
    most = float(profile.activation_corners.max(initial=0.0))
    is_mixed = prepared.job.arithmetic in (Precision.AMP_BF16, Precision.AMP_FP16)
    if not is_mixed or most == 0:
        return 0.0
    cast = (1 - expert_share(prepared.job)) * profile.parameter_bytes / 2
    return min(cast / most, 0.9)


def _with_gradients(profile: MemoryProfile) -> MemoryProfile:
    """Return the memory of a further micro-batch: the gradients of those before it are there."""
    return replace(
        profile,
        activation_corners=np.array([profile.activation_corners.max(initial=0.0)]),
        gradient_corners=np.array([profile.gradient_bytes]),
    )


def _grown(parts: MemoryParts, factor: FloatArray) -> MemoryParts:
    """Return the parts with that many times the activations."""
    return replace(
        parts,
        activation_corners=parts.activation_corners * factor[:, None],
        attention_bytes=parts.attention_bytes * factor,
        convolution_bytes=parts.convolution_bytes * factor,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictedScale:
    """The scale of plans by what is predicted of a job at some batches.

    A plan computes as much longer than the equations say as one accelerator does, unless they
    answer by themselves (:func:`.plan_engine.needs_no_single`). Where they were fitted on other
    jobs, replicas that are not split take what single answers say of them.

    What was observed corrects each of them as it does answers.

    Parameters
    ----------
    prepared : PreparedJob
        A bare step, whatever the job is said to be.
    """

    core: Core
    job: Job
    prepared: PreparedJob
    placement: ResolvedPlacement
    training: TransformerTraining
    observed: ObservedJob | None = None

    def __call__(self, choices: Sequence[PlanChoice], steps: PlanStep) -> FloatArray:
        """Return the factor of each plan beside what the equations say of it.

        It predicts at a few batches, each of which is captured.
        """
        within = [choice.micro_batch for choice in choices]
        own = one_micro_batch(self.core, self.prepared.job)
        asked = at_some_batches(self.core, own, within)
        known = ReplicaSteps.of(self.core, own, asked, self.placement)
        usual = job_choice(self.prepared.job, choices[0].plan).checkpointing
        alike = [replace(choice, checkpointing=usual) for choice in choices]
        fabric = self.placement.fabric
        training = self.training.on(fabric.accelerators)
        alone = plan_step(training.alone(fabric, alike), training.constants)
        batch = np.array(within)
        accumulation = np.array([choice.micro_batches for choice in choices])
        single_s = known.single_s(batch, accumulation)
        free = ReplicaSteps.of(self.core, own, asked, self.placement, limited=False)
        free_s = free.single_s(batch, accumulation)
        apart = [needs_no_single(self.prepared, training, one.plan) for one in choices]
        factor = single_s / np.where(apart, free_s, alone.step_time_s)
        # Replicas of language models that are not split are answered by the equations as well.
        predicted = not self.prepared.is_language_model
        whole = np.array(
            [predicted and _is_whole(one) and one.checkpointing is usual for one in choices]
        )
        told, again = with_computing(steps, factor), np.ones(len(choices))
        stages = np.array([choice.plan.zero_stage for choice in choices])
        for stage in np.unique(stages[whole]).tolist():
            rows = np.flatnonzero(whole & (stages == stage))
            replicas = known.replicated(batch[rows], accumulation[rows], zero_stage=stage)
            again[rows] = replicas.step_time_s / told.step_time_s[rows]
        return self._corrected(choices, scaled(told, again)).step_time_s / steps.step_time_s

    def _corrected(self, choices: Sequence[PlanChoice], steps: PlanStep) -> StepParts:
        """Return the steps as all that is known of the job lets them appear."""
        asked, within = self.placement.placement, [one.micro_batch for one in choices]
        return corrected_at_batches(
            self.core,
            at_some_batches(self.core, one_micro_batch(self.core, self.job), within),
            self.observed,
            (self.core.resolve(replace(asked, plan=one.plan)) for one in choices),
            answered_parts(steps),
            batch_size=np.array(within),
            micro_batches=np.array([one.micro_batches for one in choices]),
        )


def _is_whole(choice: PlanChoice) -> bool:
    plan = choice.plan
    return plan.tensor == plan.pipeline == plan.context == plan.expert == 1


#: Warnings of one accelerator that say nothing of plans.
_OF_ONE = (NO_ROOM_WARNING, RAN_OUT_WARNING)


def search(
    core: Core,
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    observed: ObservedJob | None = None,
    *,
    global_batch: int | None = None,
    most: int = 10,
) -> PlanRanking:
    """Search the parallel plans of a job, as :meth:`.facade.Estimator.search`."""
    job = prepared.job
    if job.mode is not Mode.TRAINING:
        raise InvalidInputError(
            f"Plans are searched for training; {job.label} is asked about in {job.mode.value}. "
            "State the mode training; in inference, ask for a placement with tp, the number of "
            "accelerators that hold the model between them.",
            pointer="/job/mode",
        )
    training = transformer_training(prepared)
    if training is None:
        raise InvalidInputError(
            "Plans are searched for the training of a transformer, and none was recognised in "
            f"{job.label}.",
            pointer="/job",
        )
    alone = on_one_of_each(core, prepared, placement, observed)
    found = search_plans(
        training,
        placement.fabric,
        global_batch=global_batch or prepared.samples * placement.count,
        scale=PredictedScale(
            core=core,
            job=job,
            prepared=bare_step(core, prepared),
            placement=placement,
            training=training,
            observed=observed,
        ),
        room_of=CapturedRoom.of(core, prepared, placement, training, observed),
        most=most,
    )
    said = [text for one in alone for text in one.warnings if text not in _OF_ONE]
    said += found.warnings
    plans = (one.choice.plan for one in found.plans)
    if any(is_left_to_megatron(prepared, training, placement, plan) for plan in plans):
        said.append(SPLIT_BY_MEGATRON_WARNING)
    split = [one.choice.plan for one in found.plans if not _is_whole(one.choice)]
    said += [text for plan in split for text in experts_warnings(training, plan)]
    return replace(found, model_version=core.model.version, warnings=tuple(dict.fromkeys(said)))

"""The memory of accelerators that a placement gives to a captured job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.client.answers import Memory
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.core.resolved_placement import Kind, ResolvedPlacement
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.single.plan_engine import needs_no_single, transformer_training
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.memory.memory import (
    UNBOUNDED,
    ExcessBounds,
    MemoryColumns,
    kept_otherwise,
    memory_cell,
    memory_columns,
)
from perfmodel.placement.memory.memory_parts import MemoryPlan, memory_parts
from perfmodel.placement.plans.compiled_memory import compiled_memory_bytes
from perfmodel.placement.plans.core_memory import core_memory_parts
from perfmodel.placement.plans.plan_answer import TransformerTraining, are_split, job_choice
from perfmodel.placement.topology.topology import Offload, Plan

#: Deviation in logarithms of what is counted: of a few dozen published runs, whose batches are
#: chosen to fill the memory, none needs more than it has, and the fullest fills 99 % of it.
_DEVIATION = 0.1


class JobBounds(NamedTuple):
    """What observed steps of a job say of the memory that it needs.

    Parameters
    ----------
    elsewhere : ExcessBounds
        On any accelerator.
    there : mapping of str to ExcessBounds
        On those that it ran out on, by their names.
    """

    elsewhere: ExcessBounds = UNBOUNDED
    there: Mapping[str, ExcessBounds] = MappingProxyType({})

    def on(self, accelerator: AcceleratorSpec) -> ExcessBounds:
        """Return what is said on one kind of accelerator, whatever the job gets of each."""
        return self.there.get(accelerator.name, self.elsewhere)


#: Of a job of which no step was observed.
NO_BOUNDS = JobBounds()


def tightest_memory(
    prepared: PreparedJob,
    placement: ResolvedPlacement,
    neighbour_bytes: float = 0.0,
    bounds: JobBounds = NO_BOUNDS,
) -> Memory:
    """Return the memory of the accelerator that runs out most likely, then with the least room.

    Parameters
    ----------
    neighbour_bytes : float
        What other jobs hold of it: the step fits where all of them do.
    """
    estimates = [
        memory_on(prepared, placement, kind).within(bounds.on(kind.accelerator)).first
        for kind in placement.kinds
    ]
    if len(estimates) == 1 and not neighbour_bytes:
        return estimates[0]
    fullest = min(estimates, key=_left)
    if neighbour_bytes > max(_left(fullest), 0.0):
        return replace(fullest, fits=False, oom_probability=1.0)
    return max(
        estimates,
        key=lambda one: (one.oom_probability or 0.0, -_left(one), -one.capacity_bytes),
    )


def _left(memory: Memory) -> float:
    return memory.capacity_bytes - (memory.peak_bytes or 0.0)


#: Cells that were observed: a job at its batch, and where it ran.
_Cells = Iterable[tuple[PreparedJob, ResolvedPlacement]]


def excess_bounds(ran: _Cells, ran_out: _Cells) -> JobBounds:
    """Return by how many deviations observed steps of a job exceed their room.

    A step ran on all of its accelerators, and ran out on one of them at least. Beside other jobs
    it may have run out by what they hold, which says nothing of its own need. Where a step ran that
    exceeds its room by more than one that ran out, the latter counts for nothing: something else
    held the memory. By how much a job is counted too low is said of the accelerators that it ran
    out on; of others, that it is not counted too high.
    """
    most = max(map(_most_excess, ran), default=UNBOUNDED.ran)
    out, there = UNBOUNDED.ran_out, dict[str, float]()
    for cell in ran_out:
        excess, (kind, *others) = _most_excess(cell), cell[1].kinds
        if excess <= most or cell[1].placement.shared_with:
            continue
        out = min(out, max(excess, 0.0))
        if not others:
            name = kind.accelerator.name
            there[name] = min(excess, there.get(name, excess))
    return JobBounds(
        ExcessBounds(most, out),
        {name: ExcessBounds(most, min(excess, out)) for name, excess in there.items()},
    )


def _most_excess(cell: tuple[PreparedJob, ResolvedPlacement]) -> float:
    """Return by how many deviations a step exceeds its room where it does most."""
    prepared, placement = cell
    return max(float(memory_on(prepared, placement, kind).excess[0]) for kind in placement.kinds)


def fullest_memory(prepared: PreparedJob, placement: ResolvedPlacement) -> MemoryColumns:
    """Return the memory of the accelerator whose room a step is counted to fill most, one cell."""
    columns = [memory_on(prepared, placement, kind) for kind in placement.kinds]
    return max(columns, key=lambda one: float(one.filled[0]))


def memory_on(prepared: PreparedJob, placement: ResolvedPlacement, kind: Kind) -> MemoryColumns:
    """Return the memory of one accelerator of a kind; it is worked out once for all that agree."""
    plan = placement.fabric.plan
    # Replicas that share nothing out hold the same, however many they are beyond one.
    shared_out = plan.zero_stage or prepared.memory_constants.divides_data
    plain = not (placement.is_split or shared_out or plan.offload)
    told_apart = (placement.count > 1, plan.sequence_parallel) if plain else plan
    training = trained_by_core(prepared, placement, plan) if placement.is_split else None
    return prepared.once(
        kind.accelerator,
        ("memory", kind.accelerator.name, kind.part, told_apart, training is not None),
        lambda: _counted_memory(prepared, kind.held, plan, training),
    )


def trained_by_core(
    prepared: PreparedJob, placement: ResolvedPlacement, plan: Plan
) -> TransformerTraining | None:
    """Return what Megatron's core trains under a plan that splits a replica; None where others do.

    What is offloaded is counted from the captured program, whatever carries it out.

    Parameters
    ----------
    plan : Plan
        For the accelerators of the placement.
    """
    if plan.offload or not are_split(plan):
        return None
    training = transformer_training(prepared)
    if training is None:
        return None
    training = training.on(placement.fabric.accelerators)
    return training if needs_no_single(prepared, training, plan) else None


def _counted_memory(
    prepared: PreparedJob,
    accelerator: AcceleratorSpec,
    plan: Plan,
    by_core: TransformerTraining | None,
) -> MemoryColumns:
    """Return the memory of one accelerator, as much of it as the job gets, under a whole plan."""
    job, shape = prepared.job, None
    if by_core is not None:
        parts, replicas = core_memory_parts(by_core, [job_choice(job, plan)]), plan.data or 1
        known = prepared.memory_constants
        return memory_columns(parts, [accelerator], constants=known, replicas=replicas)
    if is_counted_compiled(prepared, accelerator):
        training = TransformerTraining.of(job)
        if training is not None:
            training = replace(training, trained_share=prepared.trained_share)
            needed = compiled_memory_bytes(training, job_choice(job, plan))
            return compiled_columns(np.array([needed]), accelerator)
    if plan.expert > 1 or Offload.ACTIVATIONS in plan.offload:
        # It depends on the dimensions of the model, which its name may not tell.
        training = transformer_training(prepared)
        shape = None if training is None else training.shape
    return memory_cell(
        prepared.memory_profile, accelerator, job=job, constants=prepared.memory_constants,
        plan=plan, shape=shape,
    )  # fmt: skip


def is_counted_compiled(prepared: PreparedJob, accelerator: AcceleratorSpec) -> bool:
    """Tell whether equations count the memory of a job, as a compiler leaves it.

    Steps of the captured program keep copies that it fuses away: casts of scores over the
    vocabulary alone are several times as large.
    """
    return accelerator.kind == "tpu" and prepared.is_language_model


def replica_memory(
    prepared: PreparedJob, columns: ReplicaColumns, bounds: JobBounds = NO_BOUNDS
) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Return the memory of the accelerator of each placement, as :func:`tightest_memory` does.

    Returns
    -------
    peak_bytes : ndarray, shape (placements,)
    fits : ndarray of bool, shape (placements,)
    """
    held = [(at, spec) for at, kinds in enumerate(columns.accelerators) for spec in kinds]
    place = np.array([at for at, _ in held])
    replicas = columns.groups.ranks[place]
    plan = MemoryPlan(
        data=replicas,
        zero_stage=float(columns.zero_stage),
        micro_batches=float(prepared.job.accumulation_steps),
        **kept_otherwise(None, prepared.job),
    )
    memory = memory_columns(
        memory_parts(prepared.memory_profile, plan),
        [spec for _, spec in held],
        constants=prepared.memory_constants,
        replicas=replicas,
    )
    memory = replace(memory, bounds=bounds.elsewhere)
    peak_bytes, runs_out = memory.peak_bytes, memory.oom_probability
    for name, there in bounds.there.items():
        on, known = np.array([spec.name == name for _, spec in held]), replace(memory, bounds=there)
        peak_bytes = np.where(on, known.peak_bytes, peak_bytes)
        runs_out = np.where(on, known.oom_probability, runs_out)
    capacity = memory.capacity_bytes
    tightest = np.lexsort((capacity, capacity - peak_bytes, -runs_out, place))[
        np.searchsorted(place, np.arange(len(columns)))
    ]
    return peak_bytes[tightest], runs_out[tightest] <= 0.5


def compiled_columns(needed_bytes: FloatArray, accelerator: AcceleratorSpec) -> MemoryColumns:
    """Return the memory of compiled steps, which hold what is counted and nothing around it."""
    capacity = np.full(len(needed_bytes), float(accelerator.memory_bytes))
    return MemoryColumns(
        demand_bytes=needed_bytes,
        certain_bytes=np.zeros(len(needed_bytes)),
        capacity_bytes=capacity,
        full_bytes=capacity,
        need_share=np.ones(len(needed_bytes)),
        deviation=_DEVIATION,
    )

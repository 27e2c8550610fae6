"""Answers for jobs that are known by measured cells alone, without a graph.

Where steps of the job itself were observed, and replicas on whole accelerators are asked about,
they are those of :mod:`.opaque_job`. Everything else, a job of which nothing is known, one beside
another, a part of an accelerator, is completed from cells that resemble it
(:mod:`perfmodel.placement.opaque.completion`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perfmodel.estimator.observed import DEVIATIONS
from perfmodel.estimator.opaque_job import OpaqueJob, OpaqueSteps
from perfmodel.estimator.opaque_limits import limited, not_modelled, seen_under
from perfmodel.estimator.opaque_steps import (
    ReplicaColumns,
    is_modelled,
    own_batch,
    whole_word,
)
from perfmodel.estimator.opaque_tables import observed_cells
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.graph.job import Job
from perfmodel.placement.estimate import Breakdown, Estimate, MemoryEstimate, Throughput
from perfmodel.placement.opaque.completion import (
    COVERAGE,
    Completion,
    OpaqueTable,
    nearest_labels,
)
from perfmodel.placement.opaque.opaque_cells import OpaqueCells, opaque_cells
from perfmodel.placement.opaque.opaque_likeness import nearest_cells
from perfmodel.placement.topology.topology import Placement
from perfmodel.types import Basis, Mode

if TYPE_CHECKING:
    from perfmodel.devices.catalog import Catalog

FloatArray = npt.NDArray[np.float64]

#: ``model_version`` of such answers.
VERSION = "opaque"


def opaque_estimates(
    opaque: OpaqueJob, placements: Sequence[ResolvedPlacement], catalog: Catalog
) -> list[Estimate]:
    """Answer the cells of an opaque job by those that were observed.

    Parameters
    ----------
    opaque : OpaqueJob
        Without any observation the answers rest on the name alone.
    placements : sequence of ResolvedPlacement
        At least one.

    Returns
    -------
    list of Estimate
        One for each placement; their memory is not known.
    """
    modelled = [_is_by_steps(opaque, placement) for placement in placements]
    answers: dict[int, Estimate] = {}
    for ways, answer in ((True, _by_steps), (False, _by_completion)):
        chosen = [at for at, way in enumerate(modelled) if way is ways]
        if chosen:
            found = answer(opaque, [placements[at] for at in chosen], catalog)
            answers |= dict(zip(chosen, found, strict=True))
    return [answers[at] for at in range(len(placements))]


def _is_by_steps(opaque: OpaqueJob, placement: ResolvedPlacement) -> bool:
    if opaque.own is None or not is_modelled(placement, opaque.job.mode):
        return False
    observed = [one.placement for one in opaque.own_observations]
    # Cells that were observed under the same limits know more of them than any equation.
    return placement.is_plain or not seen_under(placement.placement, observed)


def _by_steps(
    opaque: OpaqueJob, placements: Sequence[ResolvedPlacement], catalog: Catalog
) -> list[Estimate]:
    """Answer replicas of a job of which steps were observed."""
    job, (own, _) = opaque.job, observed_cells(opaque.job, opaque.own_observations, catalog)
    asked = _asked_cells(job, placements, catalog)
    nearest = nearest_cells(asked, own)
    observed = [one.placement for one in opaque.own_observations]
    alike: dict[tuple[str, int], list[int]] = defaultdict(list)
    for at, placement in enumerate(placements):
        alike[whole_word(placement), placement.fabric.plan.zero_stage].append(at)
    answers: dict[int, Estimate] = {}
    for rows in alike.values():
        found = opaque.steps(ReplicaColumns.of([placements[at] for at in rows]))
        for row, at in enumerate(rows):
            labels = tuple(own.label(int(i)) for i in nearest[at])
            answers[at] = _of_step(job, placements[at], found, row, labels, observed)
    return [answers[at] for at in range(len(placements))]


def _of_step(
    job: Job,
    placement: ResolvedPlacement,
    found: OpaqueSteps,
    row: int,
    nearest: tuple[str, ...],
    observed: Sequence[Placement],
) -> Estimate:
    parts, log_sd = found.calibrated.parts, float(found.calibrated.log_sd[row])
    compute_s, whole_s = float(parts.compute_s[row]), float(parts.step_time_s[row])
    held = limited(
        job,
        placement,
        compute_s=compute_s,
        step_s=whole_s,
        device_share=float(found.device_share[row]),
    )
    step_s = whole_s + (held.factor - 1) * compute_s + held.stall_s
    wide = math.exp(math.hypot(DEVIATIONS * log_sd, held.half_width))
    basis = Basis.ANALYTICAL if held.is_limited else found.bases[row]
    if basis is Basis.MEASURED and not seen_under(placement.placement, observed):
        basis = Basis.INTERPOLATED
    answer = _estimate(job, placement, (step_s, step_s / wide, step_s * wide), basis, nearest)
    return replace(
        answer,
        compute_time_s=compute_s * held.factor,
        sync_time_s=float(parts.communication_s[row]),
        breakdown=Breakdown(
            compute_s=compute_s * held.factor,
            exposed_communication_s=float(parts.exposed_communication_s[row]),
            input_stall_s=held.stall_s,
            overhead_s=float(parts.overhead_s[row]),
        ),
        warnings=(*answer.warnings, *held.warnings),
    )


def _by_completion(
    opaque: OpaqueJob, placements: Sequence[ResolvedPlacement], catalog: Catalog
) -> list[Estimate]:
    """Answer cells by what resembles them."""
    job, asked = opaque.job, _asked_cells(opaque.job, placements, catalog)
    table = opaque.tables.steps
    found, alone = table.complete(asked), table.complete(asked.on_one_accelerator())
    observed = [one.placement for one in opaque.own_observations]
    return [
        _completed(job, placement, found, at, float(alone.median_s[at]), table, observed)
        for at, placement in enumerate(placements)
    ]


def _completed(
    job: Job,
    placement: ResolvedPlacement,
    found: Completion,
    at: int,
    alone_s: float,
    table: OpaqueTable,
    observed: Sequence[Placement],
) -> Estimate:
    micro_batches = job.accumulation_steps
    ends = (found.median_s[at], found.low_s[at], found.high_s[at])
    step_s, low_s, high_s = (float(end) * micro_batches for end in ends)
    nearest = tuple(nearest_labels(table, found, at))
    answer = _estimate(job, placement, (step_s, low_s, high_s), found.basis[at], nearest)
    if not seen_under(placement.placement, observed):
        answer = replace(answer, warnings=(*answer.warnings, *not_modelled(placement.placement)))
    if placement.count == 1 or job.mode is Mode.INFERENCE:
        return answer
    # What the step takes beyond that on one accelerator is what several wait for each other.
    compute_s = min(alone_s * micro_batches, step_s)
    return replace(
        answer,
        compute_time_s=compute_s,
        sync_time_s=step_s - compute_s,
        breakdown=Breakdown(compute_s=compute_s, exposed_communication_s=step_s - compute_s),
    )


def _asked_cells(
    job: Job, placements: Sequence[ResolvedPlacement], catalog: Catalog
) -> OpaqueCells:
    return opaque_cells(
        [(job.job_type or "", job.batch_size)] * len(placements),
        [placement.placement for placement in placements],
        catalog=catalog,
        mode=job.mode,
    )


def _estimate(
    job: Job,
    placement: ResolvedPlacement,
    times_s: tuple[float, float, float],
    basis: Basis,
    nearest: tuple[str, ...],
) -> Estimate:
    """Return an answer with the step on one accelerator, or of replicas that do not wait."""
    step_s, low_s, high_s = times_s
    plan = placement.fabric.plan
    samples = (plan.data or 1) * own_batch(job) * job.accumulation_steps
    return Estimate(
        throughput=Throughput(
            samples_per_second=samples / step_s,
            low=samples / high_s,
            high=samples / low_s,
            coverage=COVERAGE,
        ),
        step_time_s=step_s,
        compute_time_s=step_s,
        sync_time_s=0.0,
        breakdown=Breakdown(compute_s=step_s),
        memory=MemoryEstimate(
            peak_bytes=None,
            capacity_bytes=min(kind.held.memory_bytes for kind in placement.kinds),
            fits=None,
        ),
        basis=basis,
        out_of_distribution=basis is Basis.DEFAULT,
        model_version=VERSION,
        nearest=nearest,
        warnings=(*placement.warnings, *_warnings(job, basis)),
    )


def _warnings(job: Job, basis: Basis) -> tuple[str, ...]:
    unknown = (NOTHING_KNOWN_WARNING.format(job.job_type),) if basis is Basis.DEFAULT else ()
    return (*unknown, NO_GRAPH_WARNING)


#: Said in every answer of this kind.
NO_GRAPH_WARNING = (
    "The job is known by its type alone: its memory is not known, and its step is divided as far "
    "as observed steps tell."
)

#: Said where no cell of the job was observed and nothing goes by its name.
NOTHING_KNOWN_WARNING = (
    "Nothing of the job type {0!r} was ever measured; the answer is what jobs in general take. "
    "Send observations of it."
)

"""Steps of jobs that are known by a name and observed steps alone, without a graph.

Where steps of the job itself were observed, and replicas on whole accelerators are asked about,
they are those of :mod:`.job_type`, slowed by limits and by jobs beside them as captured ones are,
as long as the load of one of the jobs is known.
Everything else, a job of which nothing is known, and one under limits or beside a job where such a
step was observed, is completed from cells that resemble it
(:mod:`perfmodel.placement.job_types.completion`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from perfmodel.client.answers import Breakdown, Memory, Throughput
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.guessed_rows import is_modelled, observed_cells
from perfmodel.estimator.evidence.strangers import SAID, agreed, said_of_others
from perfmodel.estimator.evidence.tight_cells import RAN_OUT_WARNING
from perfmodel.estimator.job_types.job_type import JobTypeSteps, ObservedJobType
from perfmodel.estimator.job_types.limited_steps import limited, not_modelled, seen_under
from perfmodel.estimator.placing.cells import CellStep, Steps
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.slowdowns import Neighbours, neighbours, said_of_guesses
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job, own_batch, split_label
from perfmodel.intervals import COVERAGE, DEVIATIONS
from perfmodel.placement.estimate import Estimate, StepNumbers
from perfmodel.placement.job_types.cell_likeness import nearest_cells
from perfmodel.placement.job_types.completion import Completion, nearest_labels
from perfmodel.placement.job_types.job_type_cells import JobTypeCells, job_type_cells
from perfmodel.placement.sharing.colocation import family_of
from perfmodel.types import RUNG, Basis, Mode, weakest

#: ``model_version`` of such answers.
VERSION = "opaque"


def answer_of_type(core: Core, of: ObservedJobType, placement: ResolvedPlacement) -> Estimate:
    """Answer one question about a job type."""
    step = type_steps(of, [placement], [neighbours(core, placement)]).at((0, 0))
    return type_estimate(of, placement, step)


def type_steps(
    of: ObservedJobType,
    placements: Sequence[ResolvedPlacement],
    neighbours: Sequence[Neighbours] = (),
) -> Steps:
    """Return the steps of a job type on some placements, one row.

    Without observations they rest on the name alone; without neighbours nothing is shared.
    """
    asked = list(zip(placements, neighbours or [()] * len(placements), strict=True))
    by_steps = [_is_by_steps(of, *one) for one in asked]
    found: dict[int, CellStep] = {}
    for way, answer in ((True, _by_steps), (False, _by_completion)):
        chosen = [at for at, one in enumerate(by_steps) if one is way]
        if chosen:
            steps = answer(of, [asked[at] for at in chosen])
            found |= dict(zip(chosen, steps, strict=True))
    return Steps.row([found[at] for at in range(len(asked))])


def type_steps_over(of: ObservedJobType, columns: ReplicaColumns) -> Steps:
    """Return the steps of replicas, one row, where some steps of the job type were observed."""
    found = of.steps(columns)
    parts, half_width = found.calibrated.parts, DEVIATIONS * found.calibrated.log_sd
    rate = columns.groups.ranks * own_batch(of.job) * of.job.accumulation_steps / parts.step_time_s
    return Steps(
        parts=parts.each(lambda part: part[None]),
        step_time_s=parts.step_time_s[None],
        samples_per_second=rate[None],
        low=(rate / np.exp(half_width))[None],
        high=(rate * np.exp(half_width))[None],
        half_width=half_width[None],
        rung=np.array([[RUNG[basis] for basis in found.bases]], dtype=np.int8),
    )


def type_estimate(of: ObservedJobType, placement: ResolvedPlacement, cell: CellStep) -> Estimate:
    """Return the answer of a step on a placement; of its memory it is known where it ran out."""
    unknown = cell.basis is Basis.DEFAULT
    told = [NOTHING_KNOWN_WARNING.format(of.job.job_type)] if unknown else []
    if of.job.batch_size not in (1, own_batch(of.job)):
        told.append(BATCH_OF_NAME_WARNING.format(own_batch(of.job), of.job.batch_size))
    runs_out = of.runs_out_on(placement)
    parts = cell.parts
    return Estimate(
        throughput=Throughput(
            samples_per_second=cell.samples_per_second,
            low=cell.low,
            high=cell.high,
            coverage=COVERAGE,
        ),
        step_time_s=cell.step_time_s,
        compute_time_s=parts.compute_s,
        sync_time_s=parts.communication_s,
        breakdown=Breakdown(*parts[:4]),
        memory=Memory(
            peak_bytes=None,
            capacity_bytes=min(kind.held.memory_bytes for kind in placement.kinds),
            fits=False if runs_out else None,
            oom_probability=1.0 if runs_out else None,
        ),
        basis=cell.basis,
        out_of_distribution=unknown,
        model_version=VERSION,
        nearest=cell.nearest,
        warnings=(*placement.warnings, *told, *said_of_type([runs_out]), *cell.warnings),
    )


def said_of_type(runs_out: Collection[bool]) -> tuple[str, ...]:
    """Say what is not known of cells of a job type, of which some may be known not to fit."""
    out = (RAN_OUT_WARNING,) if any(runs_out) else ()
    return (*out, STEP_OF_TYPE_WARNING if all(runs_out) else NO_GRAPH_WARNING)


#: A placement, and for each of its kinds the jobs beside the one that is asked about.
_Asked = tuple[ResolvedPlacement, Neighbours]


def _is_by_steps(of: ObservedJobType, placement: ResolvedPlacement, beside: Neighbours) -> bool:
    if of.own is None or not is_modelled(placement, of.job.mode):
        return False
    if placement.placement.shared_with and not _knows_a_load(of.job, beside):
        return False
    # Cells that were observed under the same limits know more of them than any equation.
    return placement.is_plain or not seen_under(placement.named, of.own_placements)


def _knows_a_load(job: Job, beside: Neighbours) -> bool:
    """Tell whether the law of pairs has more to go by than two typical loads."""
    known = any(one.has_step or one.load.family for jobs in beside for one in jobs)
    return known or family_of(split_label(job.job_type or "")[0]) is not None


def _by_steps(of: ObservedJobType, asked: Sequence[_Asked]) -> list[CellStep]:
    """Return the steps of replicas of a job of which steps were observed."""
    placements = [placement for placement, _ in asked]
    own, _ = observed_cells(of.job, of.own_observations, of.catalog)
    nearest = nearest_cells(_asked_cells(of, placements), own)
    alike: dict[tuple[str, int], list[int]] = defaultdict(list)
    for at, placement in enumerate(placements):
        names = "+".join(spec.name for spec in placement.accelerators)
        alike[names, placement.fabric.plan.zero_stage].append(at)
    answers: dict[int, CellStep] = {}
    for rows in alike.values():
        found = of.steps(ReplicaColumns.of([placements[at] for at in rows]))
        for row, at in enumerate(rows):
            labels = tuple(own.label(int(i)) for i in nearest[at])
            answers[at] = _of_step(of, *asked[at], found, row, labels)
    return [answers[at] for at in range(len(placements))]


def _of_step(
    of: ObservedJobType,
    placement: ResolvedPlacement,
    neighbours: Neighbours,
    found: JobTypeSteps,
    row: int,
    nearest: tuple[str, ...],
) -> CellStep:
    parts, log_sd = found.calibrated.parts.at(row), float(found.calibrated.log_sd[row])
    slow, stall_s, said = limited(
        of.job,
        placement,
        compute_s=parts.compute_s,
        step_s=parts.step_time_s,
        device_share=float(found.device_share[row]),
        neighbours=neighbours,
    )
    step_s = parts.step_time_s + (slow.factor - 1) * parts.compute_s + stall_s
    wide = math.exp(math.hypot(DEVIATIONS * log_sd, slow.half_width))
    waits = Basis.ANALYTICAL if stall_s > 0 else None
    basis = weakest([found.bases[row], slow.basis, waits]) or found.bases[row]
    if basis is Basis.MEASURED and not seen_under(placement.named, of.own_placements):
        basis = Basis.INTERPOLATED
    slower = parts._replace(compute_s=parts.compute_s * slow.factor, input_stall_s=stall_s)
    times = (step_s, step_s / wide, step_s * wide)
    return _cell(of, placement, slower, times, basis, nearest, said)


def _by_completion(of: ObservedJobType, asked: Sequence[_Asked]) -> list[CellStep]:
    """Return the steps of cells by what resembles them."""
    placements = [placement for placement, _ in asked]
    cells, table = _asked_cells(of, placements), of.tables.steps
    micro_batches = of.job.accumulation_steps
    found, moved = _completed(of, JobTypeCells.join([cells, cells.on_one_accelerator()]))
    alone_s = found.median_s[len(cells) :]
    told = _by_others(of, moved[: len(cells)])
    steps = []
    for at, (placement, beside) in enumerate(asked):
        ends = (found.median_s[at], found.low_s[at], found.high_s[at])
        step_s, low_s, high_s = (float(end) * micro_batches for end in ends)
        parts = StepNumbers(step_s)
        if placement.count > 1 and of.job.mode is not Mode.INFERENCE:
            # What several take beyond one is what they wait for each other.
            compute_s = min(float(alone_s[at]) * micro_batches, step_s)
            beyond = step_s - compute_s
            parts = StepNumbers(compute_s, beyond, communication_s=beyond)
        seen = seen_under(placement.named, of.own_placements)
        unseen = (*not_modelled(placement.placement), *said_of_guesses(beside))
        said = (*told[at], *(() if seen else unseen))
        nearest, times = tuple(nearest_labels(table, found, at)), (step_s, low_s, high_s)
        steps.append(_cell(of, placement, parts, times, found.basis[at], nearest, said))
    return steps


def _completed(of: ObservedJobType, cells: JobTypeCells) -> tuple[Completion, FloatArray]:
    """Return completed cells, and by how much strangers moved them, in logarithms.

    Of a job of which nothing is known each stranger says how its own job types let it appear; what
    they agree on counts.
    """
    found, voices = of.tables.steps.complete(cells), of.voices_beside
    if not voices:
        return found, np.zeros(len(cells))
    said = [np.log(one.steps.complete(cells).median_s / found.median_s) for one in voices]
    moved = np.array([agreed(of_cell) for of_cell in np.transpose(said).tolist()])
    times = {name: getattr(found, name) * np.exp(moved) for name in ("median_s", "low_s", "high_s")}
    return replace(found, **times), moved


def _by_others(of: ObservedJobType, moved: FloatArray) -> list[tuple[str, ...]]:
    """Say of each cell how far what others reported of their job types moved it."""
    count = len(of.voices_beside)
    return [
        (said_of_others(count, "other job types", math.exp(one), "jobs in general take"),)
        if abs(one) > SAID
        else ()
        for one in moved.tolist()
    ]


def _cell(
    of: ObservedJobType,
    placement: ResolvedPlacement,
    parts: StepNumbers,
    times_s: tuple[float, float, float],
    basis: Basis,
    nearest: tuple[str, ...],
    warnings: tuple[str, ...],
) -> CellStep:
    step_s, low_s, high_s = times_s
    samples = (placement.fabric.plan.data or 1) * own_batch(of.job) * of.job.accumulation_steps
    return CellStep(
        parts=parts,
        step_time_s=step_s,
        samples_per_second=samples / step_s,
        low=samples / high_s,
        high=samples / low_s,
        half_width=math.log(high_s / low_s) / 2,
        basis=basis,
        nearest=nearest,
        warnings=warnings,
    )


def _asked_cells(of: ObservedJobType, placements: Sequence[ResolvedPlacement]) -> JobTypeCells:
    return job_type_cells(
        [(of.job.job_type or "", of.job.batch_size)] * len(placements),
        [placement.placement for placement in placements],
        catalog=of.catalog,
        mode=of.job.mode,
    )


#: Said of cells that are known not to fit; what is said of their memory stands beside it.
STEP_OF_TYPE_WARNING = (
    "The job is known by its type alone: its step is divided as far as observed steps tell."
)

#: Said of all other cells.
NO_GRAPH_WARNING = (
    "The job is known by its type alone: its memory is not known, and its step is divided as far "
    "as observed steps tell."
)

#: Said where a job states another batch than its name.
BATCH_OF_NAME_WARNING = (
    "The name of the job type states batch size {0}, which counts, and batch_size is {1}. Leave it "
    "out of the name to ask about another batch of the same job type."
)

#: Said where no cell of the job was observed and nothing goes by its name.
NOTHING_KNOWN_WARNING = (
    "Nothing of the job type {0!r} was ever measured; the answer is what jobs in general take. "
    "Send observations of it."
)

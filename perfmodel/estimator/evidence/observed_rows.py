"""Observed steps of captured jobs beside what is predicted of them: rows of a calibration."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.step_bounds import (
    StepBounds,
    bounds_of_step,
    check_possible,
)
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.placed import captured_step, predicted_cell
from perfmodel.estimator.placing.slowdowns import Slowdown
from perfmodel.features.arrays import IntArray
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps
from perfmodel.placement.calibration.step_cells import (
    SingleStep,
    StepCells,
    fabric_word,
    wiring_word,
)
from perfmodel.placement.data_parallel.gradient_buckets import within_share
from perfmodel.placement.data_parallel.streams import within_share_of
from perfmodel.placement.estimate import StepNumbers, StepParts
from perfmodel.placement.fabric.world_group import world_rows
from perfmodel.placement.topology.topology import Placement

logger = logging.getLogger(__name__)

#: What a host needs to issue one operator of an eager step, with Python around it, seconds.
_HOST_S_PER_OPERATOR = 5e-5
#: Least part of a step beside which gradients can be exchanged.
_LEAST_WINDOW = 0.05
#: Word for the job in calibrations: an answer is about one.
OBSERVED_JOB = "observed"


def named(core: Core, seen: Observation, pointer: str) -> Observation:
    """Return an observation with the catalogue's names; itself where it has them.

    Raises
    ------
    InvalidInputError
        An accelerator that the catalogue does not hold, or a placement that cannot be.
    """
    placement = core.resolve(seen.placement, pointer=f"{pointer}/placement").named
    return seen if placement == seen.placement else replace(seen, placement=placement)


def divided(
    core: Core, observations: Sequence[Observation], is_own: Callable[[Job], bool]
) -> tuple[list[Observation], list[str], list[Observation]]:
    """Part what was observed of a job itself from what was of others, under the catalogue's names.

    Parameters
    ----------
    is_own : callable
        Whether an observation that names this job is of the job itself; one that names none is.

    Returns
    -------
    own : list of Observation
    pointers : list of str
        JSON pointers to those.
    of_others : list of Observation

    Raises
    ------
    InvalidInputError
        An accelerator that the catalogue does not hold, or one of another job that cannot be
        answered: said here, since later it would be passed over.
    """
    own, pointers, of_others = [], [], []
    for position, one in enumerate(observations):
        pointer = f"/observations/{position}"
        seen = named(core, one, pointer)
        if seen.job is None or is_own(seen.job):
            own.append(seen)
            pointers.append(pointer)
            continue
        if seen.ran_out:
            # It says nothing of any other job; whether there is one is said all the same.
            if seen.job.job_type is None:
                cells_of(core, seen.job, [seen], [pointer])
            continue
        if seen.job.job_type is None:
            weighed_steps(core, seen.job, [seen], [pointer], "")
        else:
            check_possible(seen, pointer)
        of_others.append(seen)
    return own, pointers, of_others


def weighed_steps(
    core: Core, job: Job, seen: Sequence[Observation], pointers: Sequence[str], word: str
) -> ObservedSteps:
    """Return observed steps of a job beside what would have been predicted for them.

    Parameters
    ----------
    job : Job
        Its batch is that of the observation, whatever it says.
    seen : sequence of Observation
        At least one, with a pointer for each.
    word : str
        For the job; rows of equal words share a residual.

    Raises
    ------
    InvalidInputError
        One of them cannot be answered, or cannot be true; it is pointed at.
    """
    cells = [one.cell for one in seen]
    asked: dict[ObservedCell, tuple[PreparedJob, ResolvedPlacement]] = {}
    # One call of the model for all of them; what is wrong with one is said when its turn comes.
    with suppress(PerfModelError):
        asked |= {cell: looked_up(core, job, cell) for cell in dict.fromkeys(cells)}
        pairs = [(prepared, spec) for prepared, on in asked.values() for spec in on.accelerators]
        core.predictions(pairs)
    known: dict[ObservedCell, tuple[SingleStep, StepBounds, StepBounds]] = {}
    for cell, one, pointer in zip(cells, seen, pointers, strict=True):
        if cell not in known:
            with _pointed_at(pointer):
                prepared, placement = asked.get(cell) or looked_up(core, job, cell, pointer)
                step = captured_step(predicted_cell(core, prepared, placement))
                row = single_step(prepared, step.parts, placement, step.slowdowns, word)
                known[cell] = row, *bounds_of_step(prepared, placement, row)
        _, of_arithmetic, expected = known[cell]
        doubt = of_arithmetic.doubt_of(one)
        if doubt is None and not one.reporter:
            # What is stored was held to what is predicted before.
            doubt = expected.doubt_of(one)
        if doubt is not None:
            raise InvalidInputError(doubt, pointer=f"{pointer}/step_time_s")
    return ObservedSteps.of(StepCells.of_steps([known[cell][0] for cell in cells]), seen)


def weighed_alone(core: Core, seen: Observation, word: str = "") -> ObservedSteps | None:
    """Return one observed step of the job that it names; None where it cannot be weighed."""
    assert seen.job is not None
    try:
        return weighed_steps(core, seen.job, [seen], [""], word)
    except PerfModelError as error:
        logger.info("an observation of %s says nothing of others: %s", seen.job.label, error)
        return None


#: As :attr:`.Observation.cell`.
ObservedCell = tuple[Placement, int, int]


def cells_of(
    core: Core, job: Job, seen: Sequence[Observation], pointers: Sequence[str]
) -> dict[ObservedCell, tuple[PreparedJob, ResolvedPlacement]]:
    """Return the job and the placement of each observed cell.

    That replicas on whole accelerators can be answered is certain, and takes no prediction.

    Raises
    ------
    InvalidInputError
        One of them cannot be answered; it is pointed at.
    """
    found = {}
    for one, pointer in zip(seen, pointers, strict=True):
        if one.cell not in found:
            with _pointed_at(pointer):
                prepared, placement = looked_up(core, job, one.cell, pointer)
                if not placement.is_plain:
                    captured_step(predicted_cell(core, prepared, placement))
                found[one.cell] = prepared, placement
    return found


def looked_up(
    core: Core, job: Job, cell: ObservedCell, pointer: str = ""
) -> tuple[PreparedJob, ResolvedPlacement]:
    """Return the job and the placement of an observed step."""
    placement, batch_size, accumulation_steps = cell
    prepared = core.prepare(job.at_batch(batch_size, accumulation_steps))
    return prepared, core.resolve(placement, pointer=f"{pointer}/placement")


@contextmanager
def _pointed_at(pointer: str) -> Iterator[None]:
    """Let what is wrong with an observation point at it."""
    try:
        yield
    except InvalidInputError as error:
        if error.pointer.startswith("/placement"):
            error.pointer = pointer + error.pointer
        elif not error.pointer.startswith(pointer):
            error.pointer = pointer
        raise
    except PerfModelError as error:
        raise InvalidInputError(
            f"This observation cannot be weighed: {error}", pointer=pointer
        ) from error


def fabrics(columns: ReplicaColumns) -> list[str]:
    """Return words that placements over equal links share."""
    links = columns.groups.intra_class.tolist()
    return [fabric_word(link, one) for link, one in zip(links, columns.networks, strict=True)]


def wirings(columns: ReplicaColumns) -> list[str]:
    """Return what tells links of one word apart, words of :func:`.step_cells.wiring_word`."""
    dealt = [dealt_word(one.named) for one in columns.placements] or [""] * len(columns)
    return [
        wiring_word(group, word)
        for group, word in zip(world_rows(columns.groups), dealt, strict=True)
    ]


def dealt_word(placement: Placement) -> str:
    """Return how many accelerators each host has; empty where all but the last are full.

    Examples
    --------
    >>> from perfmodel.placement.topology.parse import parse_placement
    >>> words = ("8xT4", "(4+4+1)xT4@eth-10g", "(2+4+2)xT4@eth-10g", "T4+2xT4+V100@eth-10g")
    >>> [dealt_word(parse_placement(word)) for word in words]
    ['', '', '4xT4+2xT4+2xT4', '2xT4+1xV100+1xT4']
    """
    nodes = placement.nodes
    if len(nodes) == 1:
        return ""
    hosts = sorted(
        [(one.count, one.accelerator) for one in nodes for _ in range(one.repeat)], reverse=True
    )
    counts = [count for count, _ in hosts]
    kinds = {accelerator for _, accelerator in hosts}
    if len(kinds) == 1 and all(count == counts[0] for count in counts[:-1]):
        return ""
    return "+".join(f"{count}x{accelerator}" for count, accelerator in hosts)


def settings(columns: ReplicaColumns) -> list[str]:
    """Return what else tells placements apart, words of :func:`setting_word`."""
    if not columns.placements:
        return [setting_word(columns.zero_stage)] * len(columns)
    return [setting_word(columns.zero_stage, one) for one in columns.placements]


def setting_word(zero_stage: int, placement: ResolvedPlacement | None = None) -> str:
    """Return a word for what tells placements on equally many accelerators and links apart.

    Parameters
    ----------
    placement : ResolvedPlacement or None
        None: of equal replicas on whole accelerators.
    """
    sharded = f"zero{zero_stage}" if zero_stage else ""
    if placement is None or (placement.is_plain and len(placement.counts) == 1):
        return sharded
    asked, plan = placement.placement, placement.fabric.plan
    degrees = (plan.tensor, plan.pipeline, plan.expert, plan.context, plan.virtual_stages)
    kept = (plan.replicate, *[one.value for one in plan.offload])
    beside = sorted(one.key for one in asked.shared_with)
    parts = [kind.part.name if kind.part else "" for kind in placement.kinds]
    said = (
        placement.counts, parts, degrees, kept, plan.sequence_parallel, plan.schedule.value,
        plan.batch_split.value, beside, asked.sharing.value if beside else "",
        *(getattr(asked, name) for name in _LIMITS),
    )  # fmt: skip
    return f"{sharded} {said}".strip()


#: Fields of a placement that slow its accelerators, or what feeds them.
_LIMITS = (
    "power_limit_w", "cpu_cores", "storage_bytes_per_s", "loader_workers", "storage_locality",
)  # fmt: skip


def step_cells(
    jobs: Sequence[PreparedJob],
    parts: StepParts,
    columns: ReplicaColumns,
    slowdowns: Sequence[Sequence[Slowdown]] = (),
) -> StepCells:
    """Return predicted steps of jobs as the rows that a calibration reads, job by job.

    Parameters
    ----------
    jobs : sequence of PreparedJob
        On the same placements.
    parts : StepParts
        Columns of shape (jobs x placements,).
    columns : ReplicaColumns
        Of any placements: what joins all their accelerators counts.
    slowdowns : sequence of sequence of Slowdown
        For each placement, on each of its kinds of accelerator; empty where nothing slows any.
    """
    places, groups = len(columns), columns.groups
    each = slowdowns or [()]
    said = [
        (one.samples, one.job.accumulation_steps, *_besides(one, slower))
        for one in jobs
        for slower in each
    ]
    samples, micro_batches, host_s, input_s, window_share = np.repeat(
        np.array(said, dtype=np.float64).T, places // len(each), axis=1
    )
    there = (groups.ranks, columns.hosts, groups.largest_share, within_share(groups))
    ranks, hosts, largest_share, within = np.tile(np.array(there, dtype=np.float64), len(jobs))
    return StepCells.of_job(
        parts,
        batch_size=samples,
        micro_batches=micro_batches,
        ranks=ranks,
        hosts=hosts,
        largest_share=largest_share,
        within_share=within,
        host_s=host_s,
        # What a placement says of its loaders stands over what is usual.
        input_s=input_s * (parts.input_stall_s == 0),
        window_share=window_share,
        job=OBSERVED_JOB,
        machine=[*columns.machine] * len(jobs),
        fabric=fabrics(columns) * len(jobs),
        setting=settings(columns) * len(jobs),
        wiring=wirings(columns) * len(jobs),
        place=np.tile(np.arange(places), len(jobs)),
    )


def cells_at_batches(
    core: Core,
    captured: Sequence[PreparedJob],
    placements: Sequence[ResolvedPlacement],
    parts: StepParts,
    *,
    batch_size: IntArray,
    micro_batches: IntArray,
) -> StepCells:
    """Return predicted steps of one job at many batches, as a calibration reads them.

    Parameters
    ----------
    captured : sequence of PreparedJob
        The job at some batches; the nearest tells what parts do not.
    placements : sequence of ResolvedPlacement
        One for each row, or one for all; all on the same accelerators and links.
    parts : StepParts
        Columns of shape (rows,).
    batch_size, micro_batches : ndarray of int, shape (rows,)
        Samples of a micro-batch of one replica, and micro-batches of a step.
    """
    known = np.array([one.job.batch_size for one in captured])
    nearest = np.abs(np.log(batch_size[:, None] / known)).argmin(axis=1)
    at = list(zip(nearest.tolist(), micro_batches.tolist(), strict=True))
    said = {
        (row, count): _besides(core.prepare(captured[row].job.at_batch(int(known[row]), count)), ())
        for row, count in set(at)
    }
    host_s, input_s, window_share = np.array([said[one] for one in at]).T
    one = single_step(captured[0], parts.at(0), placements[0])
    each = [setting_word(place.fabric.plan.zero_stage, place) for place in placements]
    return StepCells.of_job(
        parts,
        batch_size=batch_size * micro_batches,
        micro_batches=micro_batches,
        ranks=one.ranks,
        hosts=one.hosts,
        largest_share=one.largest_share,
        within_share=one.within_share,
        host_s=host_s,
        input_s=input_s * batch_size / known[nearest] * (parts.input_stall_s == 0),
        window_share=window_share,
        job=one.job,
        machine=one.machine,
        fabric=one.fabric,
        setting=each if len(each) > 1 else one.setting,
        wiring=one.wiring,
    )


def single_step(
    prepared: PreparedJob,
    parts: StepNumbers,
    placement: ResolvedPlacement,
    slowdowns: Sequence[Slowdown] = (),
    word: str = OBSERVED_JOB,
) -> SingleStep:
    """Return one predicted step of a job as a row that a calibration reads, on plain numbers."""
    world = placement.fabric.world_group
    host_s, input_s, window_share = _besides(prepared, slowdowns)
    return SingleStep(
        parts=parts,
        batch_size=float(prepared.samples),
        micro_batches=float(prepared.job.accumulation_steps),
        ranks=world.ranks,
        hosts=float(placement.placement.host_count),
        largest_share=world.links.largest_share,
        within_share=within_share_of(world),
        host_s=host_s,
        input_s=0.0 if parts.input_stall_s else input_s,
        window_share=window_share,
        job=word,
        machine=placement.machine,
        fabric=fabric_word(world.links.intra_class, placement.fabric.network),
        setting=setting_word(placement.fabric.plan.zero_stage, placement),
        wiring=wiring_word(world, dealt_word(placement.named)),
    )


def _besides(prepared: PreparedJob, slowdowns: Sequence[Slowdown]) -> tuple[float, float, float]:
    """Return what else a calibration reads of a step.

    Returns
    -------
    host_s : float
        What the host needs to issue its operators.
    input_s : float
        What a script's step needs to be fed; nothing for a job that may be a bare step. Jobs that
        share an accelerator share its host, and wait for each other there as well.
    window_share : float
        The part of it beside which gradients can be exchanged.
    """
    profile, input_s = prepared.step.profile, 0.0
    if prepared.job.script:
        input_s = prepared.collate_s * max([1.0, *(one.by_neighbours for one in slowdowns)])
    host_s = max(prepared.step.host_calls, 1.0) * _HOST_S_PER_OPERATOR
    return host_s, input_s, max(profile.backward_share, _LEAST_WINDOW)

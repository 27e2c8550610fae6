"""Steps of jobs without a graph: as rows that a calibration reads, and as tables of their type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_rows import fabrics, settings, wirings
from perfmodel.estimator.placing.columns import ReplicaColumns, slowest
from perfmodel.estimator.placing.replicas import replica_parts, wait_for_each_other
from perfmodel.features.arrays import FloatArray
from perfmodel.graph.job import Job, named_job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import ObservedSteps, alone_s
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.data_parallel.gradient_buckets import gradient_buckets, within_share
from perfmodel.placement.job_types.completion import JobTypePrior, JobTypeTable
from perfmodel.placement.job_types.job_type_cells import JobTypeCells, job_type_cells
from perfmodel.placement.job_types.job_type_guess import JobTypeGuess
from perfmodel.placement.topology.topology import BatchSplit
from perfmodel.types import Mode


@dataclass(frozen=True, eq=False)
class TypeTables:
    """The same observed cells in two ways; times are those of one micro-batch.

    Parameters
    ----------
    steps : JobTypeTable
        Whole steps.
    levels : JobTypeTable
        What one accelerator takes: of steps whose synchronisation was logged what is left.
    """

    steps: JobTypeTable
    levels: JobTypeTable

    @classmethod
    def of(
        cls,
        job: Job | None,
        seen: Sequence[Observation],
        catalog: Catalog,
        prior: JobTypePrior | None = None,
    ) -> TypeTables:
        """Lay out observed cells.

        Parameters
        ----------
        job : Job or None
            What those are of that name no job.
        prior : JobTypePrior or None
            None: the shipped one.
        """
        cells, times = observed_cells(job, seen, catalog)
        logged = np.array([one.sync_time_s is not None for one in seen], dtype=np.bool_)
        alone = _alone_s(seen, cells.count)
        return cls(
            steps=JobTypeTable(cells, times, prior),
            levels=JobTypeTable(cells.on_one_accelerator(logged), alone, prior),
        )


def observed_cells(
    job: Job | None, seen: Sequence[Observation], catalog: Catalog
) -> tuple[JobTypeCells, list[float]]:
    """Return observed cells, and the time of one micro-batch of each, s.

    Parameters
    ----------
    job : Job or None
        What those are of that name no job.
    """
    jobs = [_job_of(one, job) for one in seen]
    cells = job_type_cells(
        [(of.job_type or of.label, one.batch_size) for of, one in zip(jobs, seen, strict=True)],
        [one.placement for one in seen],
        catalog=catalog,
        mode=[of.mode for of in jobs],
    )
    return cells, [one.step_time_s / one.accumulation_steps for one in seen]


def _alone_s(seen: Sequence[Observation], ranks: npt.NDArray[Any]) -> FloatArray:
    """Return what a micro-batch takes without its synchronisation, where that was logged."""
    step = np.array([one.step_time_s for one in seen])
    sync = np.array([np.nan if one.sync_time_s is None else one.sync_time_s for one in seen])
    batches = np.array([one.accumulation_steps for one in seen])
    return np.asarray(alone_s(step, sync, ranks) / batches)


def _job_of(seen: Observation, job: Job | None) -> Job:
    found = seen.job or job
    assert found is not None
    return found


def is_modelled(placement: ResolvedPlacement, mode: Mode) -> bool:
    """Tell whether a placement is one of equal replicas, alone or beside other jobs.

    Replicas of inference on unlike accelerators do not wait for each other.
    """
    alike = len(placement.kinds) == 1
    equal = alike or placement.fabric.plan.batch_split is BatchSplit.EQUAL
    return not placement.is_split and equal and (alike or mode is Mode.TRAINING)


def is_weighed(placement: ResolvedPlacement, mode: Mode) -> bool:
    """Tell whether a step observed there can be weighed: nothing limits its accelerators."""
    return placement.is_plain and is_modelled(placement, mode)


def guess_of(placements: Sequence[ResolvedPlacement], seen: Sequence[Observation]) -> JobTypeGuess:
    """Guess a job from its observed steps, at least one."""
    return JobTypeGuess.of(
        _alone_s(seen, np.array([placement.count for placement in placements])),
        np.array([batch_of(one) for one in seen], dtype=np.float64),
        np.array([slowest(placement.accelerators) for placement in placements]),
    )


def batch_of(seen: Observation) -> int:
    """Return the batch of an observed step, which may stand in the name of its job."""
    job = seen.job
    if job is None or job.job_type is None:
        return seen.batch_size
    return int(named_job(job.job_type, seen.batch_size, job.mode)[1])


def guessed_cells(
    guess: JobTypeGuess,
    columns: ReplicaColumns,
    *,
    word: str,
    mode: Mode,
    batch_size: npt.ArrayLike,
    accumulation_steps: int = 1,
) -> StepCells:
    """Return what is guessed of steps, a row for each placement.

    Parameters
    ----------
    batch_size : array_like
        Samples of a micro-batch and replica, one for all rows or one for each.
    """
    rows = len(columns.log_speed)
    samples = np.broadcast_to(np.asarray(batch_size, dtype=np.float64), (rows,))
    samples, profile = samples * accumulation_steps, guess.profile()
    device_s = guess.device_s(samples, columns.log_speed)
    groups = columns.groups
    parts = replica_parts(
        [guess.compute_s(device_s, accumulation_steps)],
        groups,
        gradient_buckets(profile),
        mode=mode,
        zero_stage=columns.zero_stage,
        accumulation_steps=accumulation_steps,
    )
    cells = StepCells.of_job(
        parts.each(lambda part: np.array(np.broadcast_to(part, (rows,)))),
        batch_size=samples,
        micro_batches=accumulation_steps,
        ranks=groups.ranks,
        hosts=groups.hosts,
        largest_share=groups.largest_share,
        within_share=within_share(groups),
        host_s=guess.host_s * accumulation_steps,
        window_share=profile.backward_share,
        device_s=device_s,
        guessed=True,
        job=word,
        machine=columns.machine,
        fabric=fabrics(columns),
        setting=settings(columns),
        wiring=wirings(columns),
    )
    # Replicas that do not wait for each other are taken to take what one of them takes.
    waits = wait_for_each_other(mode, columns.zero_stage)
    return cells if waits else replace(cells, parts=cells.on_one_accelerator().parts)


def observed_rows(
    guess: JobTypeGuess,
    placements: Sequence[ResolvedPlacement],
    seen: Sequence[Observation],
    *,
    word: str,
    mode: Mode,
) -> ObservedSteps:
    """Return observed steps of a job, at least one, beside what is guessed of them.

    Parameters
    ----------
    placements : sequence of ResolvedPlacement
        One for each step; each is one that :func:`is_weighed`.
    """
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, one in enumerate(seen):
        alike[one.accumulation_steps, placements[row].fabric.plan.zero_stage].append(row)
    pieces = []
    for (accumulation_steps, _), rows in alike.items():
        cells = guessed_cells(
            guess,
            ReplicaColumns.of([placements[row] for row in rows]),
            word=word,
            mode=mode,
            batch_size=[batch_of(seen[row]) for row in rows],
            accumulation_steps=accumulation_steps,
        )
        pieces.append(ObservedSteps.of(cells, [seen[row] for row in rows]))
    return ObservedSteps.join(pieces)


def modelled(
    core: Core, seen: Sequence[Observation], mode: Mode, *, pointer: str | None = None
) -> tuple[list[ResolvedPlacement], list[Observation]]:
    """Return the observed steps that a calibration can read, with their placements.

    Parameters
    ----------
    pointer : str or None
        JSON pointer to the steps; a bad one is refused there. None passes it over.

    Raises
    ------
    InvalidInputError
        An accelerator that the catalogue does not hold, or a placement that cannot be.
    """
    placements, kept = [], []
    for position, one in enumerate(seen):
        at = f"{pointer}/{position}/placement"
        try:
            placement = core.resolve(one.placement, pointer=at)
        except InvalidInputError:
            if pointer is None:
                continue
            raise
        if is_weighed(placement, mode):
            placements.append(placement)
            kept.append(one)
    return placements, kept

"""Observed cells of job types as tables that completion reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.observed_steps import alone_s
from perfmodel.placement.job_types.completion import JobTypePrior, JobTypeTable
from perfmodel.placement.job_types.job_type_cells import JobTypeCells, job_type_cells


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
        step = np.array([one.step_time_s for one in seen])
        sync = np.array([np.nan if one.sync_time_s is None else one.sync_time_s for one in seen])
        micro_batches = np.array([one.accumulation_steps for one in seen])
        alone = alone_s(step, sync, cells.count) / micro_batches
        logged = ~np.isnan(sync)
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


def _job_of(seen: Observation, job: Job | None) -> Job:
    found = seen.job or job
    assert found is not None
    return found

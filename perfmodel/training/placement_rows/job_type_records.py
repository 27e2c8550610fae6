"""Public tables of step times as cells of job types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from perfmodel.devices.catalog import Catalog
from perfmodel.features.arrays import Columns, FloatArray
from perfmodel.graph.job import Job
from perfmodel.importers.published import PublishedPlacement
from perfmodel.importers.registry import read_format
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.job_types.job_type_cells import JobTypeCells, job_type_cells
from perfmodel.types import Mode


@dataclass(frozen=True, kw_only=True)
class MeasuredCells(Columns):
    """Cells of one table and their logarithmic step times.

    Parameters
    ----------
    log_s : ndarray, shape (cells,)
    observations : ndarray of Observation, shape (cells,), or None
        The same as a user would send them; None where nobody asks.
    """

    cells: JobTypeCells
    log_s: FloatArray
    observations: npt.NDArray[np.object_] | None = None

    @property
    def step_time_s(self) -> FloatArray:
        """Step times, s."""
        return np.asarray(np.exp(self.log_s))


def measured_cells(records: Sequence[PublishedPlacement]) -> MeasuredCells:
    """Describe published placements as cells, by the names of their jobs alone."""
    seen = np.empty(len(records), dtype=np.object_)
    seen[:] = [_observation(record) for record in records]
    return MeasuredCells(
        observations=seen,
        cells=job_type_cells(
            [(record.job_type, record.batch_size) for record in records],
            [record.placement for record in records],
            catalog=Catalog.default(),
        ),
        log_s=np.log([record.step_time_s for record in records]),
    )


def _observation(record: PublishedPlacement) -> Observation:
    job = Job(job_type=record.job_type, mode=Mode.TRAINING, batch_size=record.batch_size)
    return Observation(
        placement=record.placement,
        batch_size=record.batch_size,
        step_time_s=record.step_time_s,
        sync_time_s=record.sync_time_s,
        job=job,
    )


def gavel_cells(data: Path, *, shared: bool = False) -> MeasuredCells:
    """Return Gavel's cells: jobs alone, or (``shared``) those beside another job too."""
    records = read_format("gavel", data).placements
    return measured_cells([r for r in records if shared or not r.placement.shared_with])


def sia_cells(data: Path) -> MeasuredCells:
    """Return Sia's cells, repeats included."""
    return measured_cells(read_format("sia", data).placements)


def thinned(table: MeasuredCells, per_device: int, rng: np.random.Generator) -> MeasuredCells:
    """Return at most so many cells of each job type on each accelerator, drawn at random."""
    keys = np.char.add(np.char.add(table.cells.job_type, "|"), table.cells.accelerator)
    chosen = [
        rng.choice(rows, min(per_device, len(rows)), replace=False)
        for rows in (np.flatnonzero(keys == key) for key in np.unique(keys))
    ]
    return table.take(np.sort(np.concatenate(chosen)))


def joined(a: MeasuredCells, b: MeasuredCells) -> MeasuredCells:
    """Return the cells of two parts of one table."""
    columns = {
        one.name: np.concatenate([getattr(a.cells, one.name), getattr(b.cells, one.name)])
        for one in fields(JobTypeCells)
    }
    seen = None
    if a.observations is not None and b.observations is not None:
        seen = np.concatenate([a.observations, b.observations])
    log_s = np.concatenate([a.log_s, b.log_s])
    return MeasuredCells(cells=JobTypeCells(**columns), log_s=log_s, observations=seen)

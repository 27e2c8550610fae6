"""Published memory of training jobs beside the memory profiles of their graphs.

A profile takes a capture (0.1 to 7 s), so it is kept in a folder of its own beside the sketches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.local import cache_folder
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job
from perfmodel.importers.jobs.lambda_labs import TASKS
from perfmodel.importers.published import Imported
from perfmodel.importers.registry import import_format
from perfmodel.placement.memory.memory_profile import PROFILE_VERSION, MemoryProfile, memory_profile
from perfmodel.predictors.folds import Progress
from perfmodel.store.sketches import SketchFiles
from perfmodel.training.captures.capture_key import capture_key, capture_view
from perfmodel.training.placement_rows.data_parallel_rows import SHARE_NOTHING

#: Models whose published replicas share no gradients, and so hold no buckets of them.
_ALONE = frozenset(TASKS[task].model for task in SHARE_NOTHING)


@dataclass(frozen=True, kw_only=True, eq=False)
class MemoryRow:
    """What one job took on one of some equal accelerators.

    Parameters
    ----------
    count : int
        Data-parallel replicas, one on each.
    memory_bytes : float
        What the monitor of the device showed at most; NaN where the job ran out of memory.
    repeats : int
        Runs behind the figure.
    """

    job: Job
    profile: MemoryProfile
    accelerator: AcceleratorSpec
    count: int
    memory_bytes: float
    repeats: int = 1

    @property
    def ran_out(self) -> bool:
        """Whether the job ran out of memory."""
        return bool(np.isnan(self.memory_bytes))

    @property
    def replicas(self) -> int:
        """Replicas that share gradients with it and itself; ``count`` but for some workloads."""
        return 1 if self.job.model in _ALONE else self.count


def memory_rows(data: Path, *, progress: Progress | None = None) -> list[MemoryRow]:
    """Read what the public runs of known workloads took, and which ran out of memory.

    Parameters
    ----------
    data : Path
        Folder of published tables.
    progress : callable or None
        Receives a line for each 50 captures.

    Returns
    -------
    list of MemoryRow
        Jobs whose model has no graph are left out, and runs that show more memory than their
        accelerator has: those ran on another one.
    """
    imported = import_format("lambda").read(data)
    found = list(_published(imported))
    profiles = kept_profiles([job for job, *_ in found], progress=progress)
    catalog = Catalog.default()
    rows = [
        MemoryRow(
            job=job,
            profile=profiles[capture_key(job)],
            accelerator=catalog.get(name),
            count=count,
            memory_bytes=memory,
            repeats=repeats,
        )
        for job, name, count, memory, repeats in found
    ]
    return [row for row in rows if not row.memory_bytes > row.accelerator.memory_bytes]


_Published = tuple[Job, str, int, float, int]


def _published(imported: Imported) -> Iterator[_Published]:
    for step in imported.steps:
        if step.memory_bytes is not None:
            yield step.job, step.accelerator, 1, step.memory_bytes, step.repeats
    for run in imported.placements:
        if run.memory_bytes is not None and run.job is not None:
            (node,) = run.placement.nodes
            repeats = int(run.settings.get("repeats", "1"))
            yield run.job, node.accelerator, node.count, run.memory_bytes, repeats
    for lack in imported.shortages:
        (node,) = lack.placement.nodes
        yield lack.job, node.accelerator, node.count, float("nan"), lack.repeats


def kept_profiles(
    jobs: Iterable[Job], *, folder: Path | None = None, progress: Progress | None = None
) -> dict[str, MemoryProfile]:
    """Return the memory profiles of jobs, captured in this process where none is kept.

    Parameters
    ----------
    folder : Path or None
        Where they are kept; None: below the cache of the user.

    Returns
    -------
    dict of str to MemoryProfile
        By :func:`~perfmodel.training.captures.capture_key.capture_key`.
    """
    files = SketchFiles(folder or cache_folder() / "memory")
    profiles: dict[str, MemoryProfile] = {}
    captured = 0
    for job in jobs:
        key = capture_key(job)
        if key in profiles:
            continue
        name = f"{key}-{PROFILE_VERSION}"
        arrays = files.read(name)
        if arrays is None:
            arrays = _capture(job).to_arrays()
            files.write(name, arrays)
            captured += 1
            if progress is not None and captured % 50 == 0:
                progress(f"{captured} graphs were captured for their memory")
        profiles[key] = MemoryProfile.from_arrays(arrays)
    return profiles


def _capture(job: Job) -> MemoryProfile:
    from perfmodel.zoo.resolve import capture_job

    return memory_profile(capture_job(capture_view(job)))

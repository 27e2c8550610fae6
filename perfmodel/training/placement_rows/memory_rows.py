"""Published memory of training jobs beside the memory profiles of their graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import stated_job
from perfmodel.importers.jobs.lambda_labs import TASKS
from perfmodel.importers.published import Imported
from perfmodel.importers.registry import read_format
from perfmodel.placement.memory.memory_profile import MemoryProfile
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.captures.capture_key import capture_key
from perfmodel.training.captures.kept_profiles import memory_profiles
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


def memory_rows(data: Path, store: ProfileStore | None = None) -> list[MemoryRow]:
    """Read what the public runs of known workloads took, and which ran out of memory.

    Parameters
    ----------
    store : ProfileStore or None
        Profiles of one's own, of which the jobs that ran out of memory on a GPU are added.

    Returns
    -------
    list of MemoryRow
        Jobs whose model has no graph are left out, and runs that show more memory than their
        accelerator has: those ran on another one.
    """
    imported = read_format("lambda", data)
    found = [*_published(imported), *(() if store is None else own_shortages(store))]
    profiles = memory_profiles(job for job, *_ in found)
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


def own_shortages(store: ProfileStore) -> Iterator[_Published]:
    """Yield the jobs that ran out of the memory of a GPU while they were profiled.

    They bound the demand from below, as published shortages do. GPUs that are not in the catalogue
    are left out: the fit compares them by their generation.
    """
    catalog = Catalog.default().with_local(None)
    for name in sorted({path.parent.parent.name for path in store.folder.glob("*/failures/*")}):
        if name not in catalog or catalog.get(name).kind != "gpu":
            continue
        for failure in store.failures(name).values():
            if failure.get("kind") == "out_of_memory":
                yield stated_job(failure["job"]), name, 1, float("nan"), 1


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

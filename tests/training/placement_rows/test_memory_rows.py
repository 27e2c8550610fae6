"""Shortages of memory that profiles hold, as rows of the memory model."""

from __future__ import annotations

from pathlib import Path

from made_measurements import when_asked

from perfmodel.devices.catalog import Catalog
from perfmodel.graph.job import Job, stated_fields
from perfmodel.profilers.profiling import profile_jobs
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.worker import Failure
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.placement_rows.memory_rows import own_shortages
from perfmodel.types import Mode

HUGE = Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=10**7)


def profiled(folder: Path, name: str, kind: str) -> ProfileStore:
    """Run a campaign of one job that fails in a way."""
    store = ProfileStore(folder)
    profile_jobs(
        [HUGE],
        store=store,
        device=Catalog.default().get(name),
        settings=MeasureSettings(threads=1),
        begin=when_asked(lambda *_: Failure(kind=kind, reason="made up", capacity_bytes=80e9)),
    )
    return store


def test_a_job_that_ran_out_of_memory_is_a_row_without_a_figure(tmp_path: Path) -> None:
    store = profiled(tmp_path, "A100-SXM4-80GB", "out_of_memory")
    (failure,) = store.failures("A100-SXM4-80GB").values()
    assert failure["capacity_bytes"] == 80e9
    ((job, name, count, memory_bytes, repeats),) = own_shortages(store)
    assert (stated_fields(job), name, count, repeats) == (
        stated_fields(HUGE), "A100-SXM4-80GB", 1, 1,
    )  # fmt: skip
    assert memory_bytes != memory_bytes  # NaN: it ran out


def test_other_failures_and_cpus_bound_nothing(tmp_path: Path) -> None:
    assert list(own_shortages(profiled(tmp_path, "A100-SXM4-80GB", "crash"))) == []
    assert list(own_shortages(profiled(tmp_path, "EPYC-7763", "out_of_memory"))) == []

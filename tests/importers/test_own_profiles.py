from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_up_process_records import (
    JOB,
    OTHER,
    collective,
    loader,
    neighbour,
    provenance,
    repeats,
    replica,
)

from perfmodel.errors import StoreError
from perfmodel.importers.own_profiles import own_catalog, read_own_profiles
from perfmodel.importers.published import Imported
from perfmodel.placement.topology.topology import Sharing
from perfmodel.process_records import KINDS, ProcessRecord, kind_of
from perfmodel.profilers.distributed.collective_runs import COLLECTIVES
from perfmodel.store.profiles.process_store import ProcessStore


def _read(folder: Path, *records: ProcessRecord) -> Imported:
    store = ProcessStore(folder)
    for record in records:
        store.append(record)
    return read_own_profiles(folder)


def test_collectives_say_whether_ranks_had_a_core_each(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        collective(1e-3),
        collective(4e-3, ranks=4, cores_per_rank=0.5),
        collective(1e-5, accelerator="H100-SXM5-80GB", cores_per_rank=None, backend="nccl 2.27.3"),
    ).collectives
    by_topology = {one.topology: one for one in found}
    assert set(by_topology) == {"", "host-memory", "host-memory, ranks share cores"}
    one = by_topology["host-memory"]
    assert (one.collective, one.ranks, one.time_s, one.backend) == (
        "all_reduce", 2, 1e-3, "gloo 2.13.0",
    )  # fmt: skip
    assert one.origin.licence == "Apache-2.0"


def test_replicas_are_placements_and_those_that_took_turns_are_rejected(tmp_path: Path) -> None:
    found = _read(
        tmp_path,
        replica(0.1),
        replica(0.08, replicas=1, sharding="none"),
        replica(0.3, sharding="fsdp"),
        replica(0.4, replicas=4, cores_per_rank=0.5),
    )
    stages = {
        (one.placement.accelerator_count, one.placement.plan.zero_stage): one.step_time_s
        for one in found.placements
    }
    assert stages == {(2, 0): 0.1, (1, 0): 0.08, (2, 3): 0.3}
    assert all(one.job is not None and one.batch_size == 64 for one in found.placements)
    assert [row.reason for row in found.rejected] == ["4 replicas took turns on 0.5 cores each"]


def test_neighbours_share_an_accelerator(tmp_path: Path) -> None:
    alone = neighbour(0.1, neighbour=None, alone_s=None)
    in_turn = neighbour(0.3, sharing="time_slicing", job=OTHER, neighbour=JOB)
    placements = _read(tmp_path, neighbour(0.2), alone, in_turn).placements
    told = {
        (one.step_time_s, len(one.placement.shared_with), one.placement.sharing): one
        for one in placements
    }
    assert set(told) == {
        (0.2, 1, Sharing.MPS),
        (0.1, 0, Sharing.MPS),
        (0.3, 1, Sharing.TIME_SLICING),
    }
    beside = told[0.2, 1, Sharing.MPS]
    assert beside.placement.shared_with[0].job is not None
    assert beside.placement.shared_with[0].job.model == "timm/resnet18"
    assert beside.settings["alone_step_time_s"] == "0.1"


def test_jobs_that_had_some_of_the_cores_are_rejected(tmp_path: Path) -> None:
    one_thread = replace(provenance(cores=2), threads=1)
    found = _read(tmp_path, neighbour(provenance=one_thread), neighbour(job=OTHER))
    assert len(found.placements) == 1
    assert [row.reason for row in found.rejected] == [
        "each job had 1 of 2 cores, which is no whole accelerator"
    ]


def test_what_others_disturbed_most_is_rejected(tmp_path: Path) -> None:
    some, most = (replace(repeats(0.1), other_load=load, noisy=True) for load in (0.4, 0.88))
    found = _read(tmp_path, loader(workers=1, repeats=some), loader(repeats=most))
    assert [one.workers for one in found.loaders] == [1]
    assert [row.reason for row in found.rejected] == [
        "other processes used most of the machine meanwhile"
    ]


def test_loaders_have_a_rate(tmp_path: Path) -> None:
    (one,) = _read(tmp_path, loader(0.1)).loaders
    assert one.samples_per_second == pytest.approx(320)
    assert (one.workers, one.cpu_cores, one.locality) == (2, 2, "memory")


def test_devices_describe_themselves(tmp_path: Path) -> None:
    _read(tmp_path, collective())
    assert own_catalog(tmp_path).get("cpu-made-up-1c").bandwidth_bytes_per_s == 8e9


def test_a_folder_without_any_says_how_to_make_some(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="perfmodel measure"):
        read_own_profiles(tmp_path)


def test_the_runs_that_come_with_the_project_are_read() -> None:
    folder = Path(__file__).resolve().parents[2] / "profiles"
    kinds = {kind_of(record) for record in ProcessStore(folder).records()}
    assert kinds == set(KINDS)
    found = read_own_profiles(folder)
    assert {one.collective for one in found.collectives} == set(COLLECTIVES)
    # They were taken while nothing else ran.
    assert found.rejected == ()
    assert len(found.collectives) >= 90
    assert len(found.placements) >= 150
    assert len(found.loaders) >= 38

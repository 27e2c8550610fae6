from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_up_process_records import CORE, JOB, OTHER, neighbour, replica
from made_up_steps import made_up_profile

from perfmodel.devices.codec import spec_from_dict
from perfmodel.importers.own_profiles import read_own_profiles
from perfmodel.placement.data_parallel.data_parallel import DataParallelCells
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.topology.links import LinkClass
from perfmodel.store.profiles.process_store import ProcessStore
from perfmodel.training.placement_fits.fit_data_parallel import fit_on_cores, is_on_cores
from perfmodel.training.placement_rows.data_parallel_rows import (
    OWN,
    DataParallelRow,
    groups_of,
    paired,
)
from perfmodel.training.placement_rows.pair_rows import read_own_pairs


def test_replicas_are_paired_with_one_and_neighbours_are_not(tmp_path: Path) -> None:
    store = ProcessStore(tmp_path)
    # The same accelerator, with a neighbour on it: no step of the job alone.
    store.append(neighbour(5.0, accelerator="cpu-made-up-1c"))
    store.append(replica(0.08, replicas=1, sharding="none"))
    store.append(replica(0.10))
    store.append(replica(0.15, sharding="fsdp"))
    found = {
        one.placement.plan.zero_stage: (one.step_time_s, alone_s)
        for one, alone_s in paired(read_own_profiles(tmp_path))
    }
    assert found == {0: (0.10, 0.08), 3: (0.15, 0.08)}


def test_replicas_on_cores_move_the_constant_of_their_links_alone(tmp_path: Path) -> None:
    store = ProcessStore(tmp_path)
    for time_s, sharding in ((0.10, "ddp"), (0.15, "fsdp")):
        store.append(replica(time_s, sharding=sharding))
    spec = spec_from_dict(CORE)
    rows = [
        DataParallelRow(
            source=OWN, record=record, alone_s=0.08, profile=made_up_profile(), spec=spec
        )
        for record in read_own_profiles(tmp_path).placements
    ]
    assert all(is_on_cores(row) for row in rows)
    groups = groups_of(rows)
    assert set(groups.intra_class.tolist()) == {int(LinkClass.HOST_MEMORY)}
    usual = fitted_constants()
    found = fit_on_cores(rows, usual)
    assert {k: v for k, v in found.link_slowdown.items() if k != LinkClass.HOST_MEMORY} == {
        k: v for k, v in usual.link_slowdown.items() if k != LinkClass.HOST_MEMORY
    }
    assert found.contention == usual.contention

    def off(known: object) -> float:
        errors = [
            DataParallelCells(row.profile, row.alone_s, groups_of([row]))
            .parts(zero_stage=row.zero_stage, constants=known)  # type: ignore[arg-type]
            .step_time_s[0]
            / row.record.step_time_s
            - 1
            for row in rows
        ]
        return float(np.abs(errors).sum())

    assert off(found) < off(usual)


def test_pairs_are_as_much_slower_as_in_their_own_processes(tmp_path: Path) -> None:
    store = ProcessStore(tmp_path)
    store.append(neighbour(0.12, neighbour=None, alone_s=None))
    store.append(neighbour(0.01, job=OTHER, neighbour=None, alone_s=None))
    store.append(neighbour(0.2, alone_s=0.1))
    store.append(neighbour(0.03, job=OTHER, neighbour=JOB, alone_s=0.01))
    pairs, shares = read_own_pairs(tmp_path)
    assert sorted(pairs.subjects.tolist()) == [
        "timm/resnet18 inference (batch size 2)", "zoo/ncf training (batch size 64)",
    ]  # fmt: skip
    # 0.2 / 0.1 and 0.03 / 0.01, whatever the step alone was in another run.
    assert sorted(np.exp(pairs.log_slowdown).tolist()) == pytest.approx([2.0, 3.0])
    assert set(shares["cpu-made-up-2c"].values()) == {1.0}

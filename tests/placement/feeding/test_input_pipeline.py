from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from synthetic_workloads import GraphBuilder, mlp

from perfmodel.errors import InvalidInputError
from perfmodel.placement.feeding.input_pipeline import input_stall
from perfmodel.placement.feeding.input_samples import (
    InputConstants,
    InputKind,
    SampleCost,
    collate_s,
    cost_of_graph,
    sample_cost,
)
from perfmodel.placement.topology.topology import Locality, Node, Placement
from perfmodel.types import Role

PHOTO = SampleCost(stored_bytes=100e3, cpu_s=2e-3, files=1.0)


def _host(**fed: Any) -> Placement:
    return Placement(nodes=(Node(accelerator="T4"),), **fed)


def test_without_cores_and_storage_no_stall_is_claimed() -> None:
    times = input_stall(_host(), PHOTO, np.array([1, 10_000]), 1e-3)
    assert times.tolist() == [0.0, 0.0]


def test_decoding_by_hand() -> None:
    # 256 samples of 2 ms on 8 cores take 64 ms; the step takes 50 ms.
    times = input_stall(_host(cpu_cores=8), PHOTO, 256, 0.05)
    assert float(times) == pytest.approx(0.014)
    # Four workers use four of the cores: 128 ms.
    few = input_stall(_host(cpu_cores=8, loader_workers=4), PHOTO, 256, 0.05)
    assert float(few) == pytest.approx(0.078)


def test_storage_by_hand() -> None:
    # 1,000 samples of 100 kB at 1 GB/s take 100 ms.
    pipeline = _host(storage_bytes_per_s=1e9)
    assert float(input_stall(pipeline, PHOTO, 1000, 0.08)) == pytest.approx(0.02)


def test_files_far_away_wait_for_each_request() -> None:
    # 16 readers, one file after another of 30 ms: 1,000 files take 1.875 s.
    far = _host(cpu_cores=16, storage_locality=Locality.OBJECT_STORE)
    assert float(input_stall(far, PHOTO, 1000, 0.0)) == pytest.approx(1.875)
    far, streamed = _host(storage_locality=Locality.OBJECT_STORE), replace(PHOTO, files=0.0)
    assert float(input_stall(far, streamed, 1000, 0.0)) == pytest.approx(0.2)


def test_without_workers_nothing_overlaps() -> None:
    # 10 samples of 2 ms and 100 kB at 100 MB/s: 20 ms and 10 ms on top of every step.
    alone = _host(cpu_cores=8, loader_workers=0, storage_bytes_per_s=1e8)
    assert input_stall(alone, PHOTO, 10, np.array([0.0, 9.0])).tolist() == pytest.approx([0.03] * 2)


def test_more_of_anything_never_hurts() -> None:
    steps = np.linspace(0.0, 0.2, 9)
    by_cores = [input_stall(_host(cpu_cores=c), PHOTO, 512, steps) for c in (1, 4, 16, 64)]
    by_storage = [
        input_stall(_host(storage_bytes_per_s=b), PHOTO, 512, steps) for b in (1e7, 1e8, 1e9, 1e10)
    ]
    for stalls in (by_cores, by_storage):
        assert np.all(np.diff(stalls, axis=0) <= 0) and np.all(np.diff(stalls, axis=1) <= 0)


def test_nearer_stores_are_never_slower() -> None:
    order = [Locality.MEMORY, Locality.LOCAL_SSD, Locality.NFS, Locality.OBJECT_STORE]
    times = [
        float(input_stall(_host(loader_workers=8, storage_locality=where), PHOTO, 256, 0.0))
        for where in order
    ]
    assert times == sorted(times)


def test_nonsense_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        SampleCost(stored_bytes=-1.0, cpu_s=0.0)


def test_costs_by_kind_are_in_order() -> None:
    cost = {
        InputKind.IMAGE_JPEG: sample_cost(InputKind.IMAGE_JPEG),
        InputKind.TOKENS: sample_cost(InputKind.TOKENS, sequence_length=1024),
        InputKind.SYNTHETIC: sample_cost(InputKind.SYNTHETIC),
    }
    assert cost[InputKind.IMAGE_JPEG].cpu_s > 20 * cost[InputKind.TOKENS].cpu_s > 0
    assert cost[InputKind.TOKENS].stored_bytes == 2048
    assert cost[InputKind.SYNTHETIC] == SampleCost(stored_bytes=0.0, cpu_s=0.0)
    larger = sample_cost(InputKind.IMAGE_JPEG, side_pixels=448)
    assert larger.cpu_s > cost[InputKind.IMAGE_JPEG].cpu_s


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((8, 3, 224, 224), InputKind.IMAGE_JPEG),
        ((8, 3, 32, 32), InputKind.IMAGE_RAW),
        ((8, 100), InputKind.TABULAR),
    ],
)
def test_inputs_of_a_graph_say_what_is_stored(shape: tuple[int, ...], kind: InputKind) -> None:
    make = GraphBuilder()
    make.node("relu", (make.tensor(shape, Role.INPUT),), [shape])
    found, cost = cost_of_graph(make.build(), samples=8)
    assert found is kind and cost.cpu_s > 0
    if kind is not InputKind.IMAGE_JPEG:
        assert cost.stored_bytes == 4 * np.prod(shape[1:])  # fp32, one sample of eight


def test_a_batch_is_put_together_byte_by_byte() -> None:
    make = GraphBuilder()
    inputs = (make.tensor((8, 100), Role.INPUT), make.tensor((8, 50), Role.INPUT))
    make.node("add", inputs, [(8, 100)])
    # 150 numbers of four bytes of each of eight samples.
    expected = 8 * 150 * 4 * InputConstants.fitted().collate_s_per_byte
    assert collate_s(make.build()) == pytest.approx(expected)


def test_a_table_s_row_is_what_the_network_reads() -> None:
    kind, cost = cost_of_graph(mlp(16, [100, 10], "relu", training=False), samples=16)
    assert kind is InputKind.TABULAR and cost.stored_bytes == 400

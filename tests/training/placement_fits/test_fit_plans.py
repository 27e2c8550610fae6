from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from made_up_plan_records import plan_record, rows_of

from perfmodel.errors import TrainingError
from perfmodel.graph.job import Job
from perfmodel.importers.published import Origin, PublishedPlacement
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.topology.topology import Network, Node, Placement, Plan
from perfmodel.training.placement_fits.fit_plans import (
    fit,
    is_locked,
    learned_from,
    shared_start,
    steps_of,
)
from perfmodel.training.placement_rows.plan_rows import plan_rows
from perfmodel.types import Mode, Precision

DATA = os.environ.get("PERFMODEL_DATA")


def _sharded(hosts: int, size: str = "1b") -> PublishedPlacement:
    return PublishedPlacement(
        job=Job(
            model="zoo/mpt",
            model_kwargs={"size": size},
            mode=Mode.TRAINING,
            batch_size=4,
            precision=Precision.BF16,
            optimizer="adamw",
            sequence_length=2048,
        ),
        job_type=f"mpt-{size}",
        batch_size=4,
        placement=Placement(
            nodes=(Node(accelerator="A100-SXM4-40GB", count=8, repeat=hosts),),
            network=Network(bandwidth_bytes_per_s=1e11) if hosts > 1 else None,
            plan=Plan(data=8 * hosts, zero_stage=3),
        ),
        step_time_s=1.0,
        origin=Origin(source="made up", licence="none"),
    )


def test_a_record_becomes_a_row() -> None:
    rows = rows_of([plan_record(4, 64, Plan(data=1, tensor=2), 3, time_s=0.25)])
    cells = rows.cells
    assert (cells.shape.layers[0], cells.shape.hidden_size[0]) == (4, 64)
    assert (cells.plan.tensor[0], cells.plan.micro_batch[0]) == (2, 3)
    assert cells.plan.micro_batches[0] == 4 and cells.plan.checkpointing[0] == 2
    assert cells.device.peak_flops[0] == 312e12 and rows.step_time_s[0] == 0.25
    assert rows.sizes.tolist() == ["4x64"]


def test_rows_keep_the_order_of_the_records_and_their_links() -> None:
    rows = plan_rows([_sharded(4), _sharded(1), _sharded(4, "3b")], Stack.TORCH)
    assert rows is not None and rows.positions.tolist() == [0, 1, 2]
    assert rows.cells.groups.data.ranks.tolist() == [32.0, 8.0, 32.0]
    assert rows.cells.groups.data.hosts.tolist() == [4.0, 1.0, 4.0]
    assert rows.sizes.tolist() == ["24x2048", "24x2048", "32x2560"]
    gathered = rows.between.gather_layer_s
    assert gathered[0] > gathered[1] > 0 and gathered[2] > gathered[0]
    np.testing.assert_array_equal(rows.take(np.array([2])).between.gather_layer_s, gathered[2:])


def test_other_stacks_are_passed_over() -> None:
    assert plan_rows([_sharded(1)], Stack.MEGATRON) is None


def test_a_fit_of_sharded_steps_takes_what_it_cannot_tell_from_split_ones() -> None:
    splits = PlanConstants(reduce_factor=1.7, weight_efficiency=0.33, gradient_overlap=0.0)
    start = shared_start(splits)
    assert start.reduce_factor == 1.7
    assert start.weight_efficiency == PlanConstants().weight_efficiency
    assert start.gradient_overlap == PlanConstants().gradient_overlap


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="vtrain"):
        fit(tmp_path)


@pytest.mark.skipif(not DATA, reason="PERFMODEL_DATA names no public measurements")
def test_shipped_constants_are_near_what_the_tables_give() -> None:
    from perfmodel.placement.plan_steps.plan_step import plan_step

    for stack in Stack:
        rows = steps_of(Path(DATA or ""), stack)
        found = plan_step(rows.cells, PlanConstants.fitted(stack), rows.between)
        off = np.abs(found.step_time_s / rows.step_time_s - 1)
        if stack is Stack.MEGATRON_CORE:
            # One run of a mixture differs by half between releases.
            off = off[(rows.cells.shape.experts == 1) & ~is_locked(rows)]
        assert off.mean() < 0.08


@pytest.mark.skipif(not DATA, reason="PERFMODEL_DATA names no public measurements")
def test_a_fit_sees_one_run_of_each_kind_and_none_that_is_locked() -> None:
    rows = steps_of(Path(DATA or ""), Stack.MEGATRON_CORE)
    seen = learned_from(rows)
    assert not is_locked(rows)[seen].any()
    assert 0 < len(seen) < (~is_locked(rows)).sum()

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from placement_accuracy.plans import evaluate, left_out

from perfmodel.graph.job import Job
from perfmodel.importers.published import Origin, PublishedPlacement
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_step import plan_step
from perfmodel.placement.topology.topology import Node, Placement, Plan
from perfmodel.training.placement_fits.fit_plans import FORMATS, published
from perfmodel.training.placement_rows.plan_rows import PlanRows, plan_rows
from perfmodel.types import Mode, Precision

DATA = os.environ.get("PERFMODEL_DATA")


def _record(size: str, micro_batch: int) -> PublishedPlacement:
    return PublishedPlacement(
        job=Job(
            model="zoo/mpt",
            model_kwargs={"size": size},
            mode=Mode.TRAINING,
            batch_size=micro_batch,
            precision=Precision.BF16,
            optimizer="adamw",
            sequence_length=1024,
        ),
        job_type=f"mpt-{size}",
        batch_size=micro_batch,
        placement=Placement(
            nodes=(Node(accelerator="A100-SXM4-40GB", count=8),), plan=Plan(data=8, zero_stage=3)
        ),
        step_time_s=1.0,
        origin=Origin(source="made up", licence="none"),
    )


def _rows() -> PlanRows:
    """Return steps that follow the equations."""
    records = [_record(size, batch) for size in ("125m", "350m", "1b") for batch in (4, 8, 16)]
    rows = plan_rows(records, Stack.TORCH)
    assert rows is not None
    truth = replace(PlanConstants.fitted(), weight_efficiency=0.7)
    times = plan_step(rows.cells, truth, rows.between).step_time_s
    return replace(rows, step_time_s=times)


def test_sizes_left_out_are_answered_from_the_others() -> None:
    rows = _rows()
    predicted, ideal = left_out(rows, rows.sizes, PlanConstants.fitted())
    error, plain = (np.abs(one / rows.step_time_s - 1).mean() for one in (predicted, ideal))
    assert error < 0.05 < plain


def test_what_is_left_out_changes_nothing_in_its_own_answer() -> None:
    rows = _rows()
    held = rows.sizes == "24x1024"
    before, _ = left_out(rows, rows.sizes, PlanConstants.fitted())
    slow = replace(rows, step_time_s=np.where(held, 100.0, rows.step_time_s))
    after, _ = left_out(slow, rows.sizes, PlanConstants.fitted())
    np.testing.assert_array_equal(before[held], after[held])
    assert (before[~held] != after[~held]).all()


def test_without_tables_there_are_no_lines(tmp_path: Path) -> None:
    assert evaluate(tmp_path) == []


@pytest.mark.skipif(not DATA, reason="PERFMODEL_DATA names no public measurements")
def test_published_steps_left_out_by_size() -> None:
    rows = plan_rows(published(Path(DATA or ""), FORMATS[Stack.TORCH][0]), Stack.TORCH)
    assert rows is not None
    some = rows.take(np.arange(0, len(rows), 4))
    predicted, ideal = left_out(some, some.sizes, PlanConstants.fitted(Stack.TORCH))
    error, plain = (np.abs(one / some.step_time_s - 1).mean() for one in (predicted, ideal))
    assert error < 0.08 < plain

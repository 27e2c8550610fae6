from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_steps import made_up_profile
from placement_accuracy.data_parallel import (
    evaluate,
    predict,
    slowdowns_from_another_job,
)

from perfmodel.importers.published import Origin, PublishedPlacement
from perfmodel.placement.data_parallel.data_parallel_constants import fitted_constants
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.training.placement_rows.data_parallel_rows import DataParallelRow, groups_of


def _row(job: str, gradient_bytes: float, *, torch: str = "2.3.0") -> DataParallelRow:
    record = PublishedPlacement(
        job=None,
        job_type=job,
        batch_size=32,
        placement=Placement(nodes=(Node(accelerator="A100-SXM4-80GB", count=8),)),
        step_time_s=1.0,
        origin=Origin(source="made up", licence="none"),
        settings={"precision": "fp32", "torch": torch},
    )
    profile = made_up_profile(gradient_bytes=gradient_bytes)
    return DataParallelRow(source="made up", record=record, alone_s=0.25, profile=profile)


def test_one_job_tells_the_others_how_slow_their_machine_is() -> None:
    known = fitted_constants()
    rows = [_row("large", 2e9), _row("middle", 4e8), _row("small", 5e7)]
    groups = groups_of(rows)
    step = predict(rows, groups, known, link_slowdown=40.0)
    rows = [
        replace(row, record=replace(row.record, step_time_s=float(t)))
        for row, t in zip(rows, step, strict=True)
    ]
    slower = slowdowns_from_another_job(rows, groups, known)
    assert slower.tolist() == pytest.approx([40.0] * 3, rel=0.2)


def test_a_job_is_not_told_by_its_own_steps() -> None:
    rows = [_row("alone", 2e9), _row("alone", 2e9)]
    slower = slowdowns_from_another_job(rows, groups_of(rows), fitted_constants())
    assert slower.tolist() == [1.0, 1.0]


def test_machines_are_kept_apart() -> None:
    rows = [_row("large", 2e9), _row("small", 5e7, torch="1.9.0")]
    slower = slowdowns_from_another_job(rows, groups_of(rows), fitted_constants())
    assert slower.tolist() == [1.0, 1.0]


@pytest.mark.skipif(
    "PERFMODEL_DATA" not in os.environ or "PERFMODEL_SLOW" not in os.environ,
    reason="PERFMODEL_DATA names no folder of public measurements, or PERFMODEL_SLOW is unset",
)
def test_the_streams_beat_what_stands_beside_them() -> None:
    for line in evaluate(Path(os.environ["PERFMODEL_DATA"]), fast=True):
        error = float(np.mean(line.errors()))
        assert all(error < float(np.mean(line.errors(name))) for name in line.baselines)

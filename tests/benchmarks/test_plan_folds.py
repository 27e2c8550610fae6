from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_plan_records import on_the_equations, plan_record, rows_of
from placement_accuracy.plan_folds import METHODS, evaluate_plans

from perfmodel.errors import TrainingError
from perfmodel.importers.published import PublishedPlacement
from perfmodel.placement.plans.plan_constants import PlanConstants
from perfmodel.placement.topology.topology import Node, Placement, Plan

DATA = os.environ.get("PERFMODEL_DATA")


def _made_up() -> list[PublishedPlacement]:
    """Return steps that follow the equations, in an order that mixes the groups."""
    plans = [Plan(data=d, tensor=t, pipeline=p) for d in (1, 2) for t in (1, 2) for p in (1, 2)]
    records = [
        plan_record(layers, width, plan, micro_batch)
        for micro_batch in (1, 4)
        for plan in plans
        for width in (512, 1024)
        for layers in (4, 8, 12)
    ]
    return on_the_equations(records, PlanConstants(weight_efficiency=0.5, gradient_overlap=0.0))


def test_a_record_becomes_a_row() -> None:
    rows = rows_of([plan_record(4, 64, Plan(data=1, tensor=2), 3, time_s=0.25)])
    cells = rows.cells
    assert (cells.shape.layers[0], cells.shape.hidden_size[0]) == (4, 64)
    assert (cells.plan.tensor[0], cells.plan.micro_batch[0]) == (2, 3)
    assert cells.plan.micro_batches[0] == 4 and cells.plan.checkpointing[0] == 2
    assert cells.device.peak_flops[0] == 312e12 and rows.step_time_s[0] == 0.25
    assert rows.sizes.tolist() == ["4x64"]


def test_every_row_is_answered_by_folds_without_its_group() -> None:
    records = _made_up()
    found = evaluate_plans(records, folds=3)
    assert found.rows == tuple(range(len(records)))
    for part in np.unique(found.fold):
        held = {g for g, f in zip(found.groups, found.fold, strict=True) if f == part}
        rest = {g for g, f in zip(found.groups, found.fold, strict=True) if f != part}
        assert not held & rest
    assert set(found.predicted_s) == set(METHODS)
    assert all(np.isfinite(a).all() and (a > 0).all() for a in found.predicted_s.values())
    assert found.mape("plan") < 3 < found.mape("flops_over_peak")
    assert found.coverage is not None and found.coverage > 0.7


def test_a_width_left_out_is_beyond_what_was_learned() -> None:
    found = evaluate_plans(_made_up(), split="width")
    assert set(found.groups) == {"512", "1024"} and found.beyond.all()
    assert found.coverage is None  # one width is left to learn from
    np.testing.assert_array_equal(found.predicted_s["plan"], found.predicted_s["equations"])


def test_a_held_out_time_changes_no_answer_of_its_fold() -> None:
    records = _made_up()
    before = evaluate_plans(records, folds=2, intervals=False)
    row = 5
    changed = list(records)
    changed[row] = replace(records[row], step_time_s=100.0)
    after = evaluate_plans(changed, folds=2, intervals=False)
    same = before.fold == before.fold[row]
    for method in METHODS:
        np.testing.assert_array_equal(
            before.predicted_s[method][same], after.predicted_s[method][same]
        )


def test_other_records_are_passed_over() -> None:
    records = _made_up()
    other = PublishedPlacement(
        job=None,
        job_type="game",
        batch_size=1,
        placement=Placement(nodes=(Node(accelerator="T4"),)),
        step_time_s=1.0,
        origin=records[0].origin,
    )
    found = evaluate_plans([other, *records], folds=2, intervals=False)
    assert found.rows[0] == 1 and len(found.rows) == len(records)


def test_one_group_cannot_be_left_out() -> None:
    with pytest.raises(TrainingError, match="two model sizes"):
        evaluate_plans([plan_record(4, 64, Plan(data=1), 1)] * 3)
    with pytest.raises(TrainingError, match="9 folds"):
        evaluate_plans(_made_up(), folds=9)


@pytest.mark.skipif(not DATA, reason="PERFMODEL_DATA names no public measurements")
def test_published_steps_of_a_model_size_never_seen() -> None:
    from perfmodel.importers.language_models.vtrain import read_vtrain

    records = read_vtrain(Path(DATA or "") / "vtrain").placements[::4]
    found = evaluate_plans(records, folds=2, intervals=False)
    assert found.mape("plan") < 3.0 < found.mape("plain_trees")
    assert found.mape("equations") < 7.0

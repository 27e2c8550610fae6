"""What is answered about language models is judged without the group that is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_plan_records import on_the_equations, plan_record, rows_of
from placement_accuracy.line import Line
from placement_accuracy.plans_answered import answered_line

from perfmodel.importers.published import PublishedPlacement
from perfmodel.placement.plan_steps.plan_constants import PlanConstants
from perfmodel.placement.plan_steps.plan_step import plan_step
from perfmodel.placement.topology.topology import Plan
from perfmodel.training.placement_fits.fit_plans import constants_of

pytest.importorskip("torch")

SIZES = ((2, 64), (3, 128))


@pytest.fixture(scope="module")
def records() -> list[PublishedPlacement]:
    plans = [Plan(data=1), Plan(data=1, tensor=2)]
    made = [
        plan_record(layers, width, plan, micro_batch, micro_batches=1)
        for layers, width in SIZES
        for plan in plans
        for micro_batch in (1, 2, 4)
    ]
    return on_the_equations(made, PlanConstants(weight_efficiency=0.5))


def judged(records: list[PublishedPlacement], models: Path) -> Line | None:
    rows = rows_of(records)
    return answered_line("made-up", "Made up", records, rows, rows.sizes, models=models)


@pytest.fixture(scope="module")
def line(records: list[PublishedPlacement], tmp_path_factory: pytest.TempPathFactory) -> Line:
    found = judged(records, tmp_path_factory.mktemp("models"))
    assert found is not None
    return found


def test_one_step_of_each_size_and_plan_is_asked(
    line: Line, records: list[PublishedPlacement]
) -> None:
    # Two sizes with two plans each; of three batches the middle one.
    assert sorted(line.groups) == ["2x64", "2x64", "3x128", "3x128"]
    assert list(line.jobs) == list(line.groups)
    assert sorted(line.measured) == sorted(records[i].step_time_s for i in (1, 4, 7, 10))
    assert line.low is not None and line.high is not None
    assert (line.low > 0).all() and (line.low <= line.predicted).all()
    assert (line.predicted <= line.high).all()


def test_the_equations_beside_it_never_saw_the_group(
    line: Line, records: list[PublishedPlacement]
) -> None:
    rows = rows_of(records)
    for size in ("2x64", "3x128"):
        constants = constants_of(rows.take(np.flatnonzero(rows.sizes != size)))
        own = rows.take(np.array([i for i in (1, 4, 7, 10) if rows.sizes[i] == size]))
        expected = plan_step(own.cells, constants, own.between).step_time_s
        shown = line.baselines["equations alone"][np.array(line.groups) == size]
        np.testing.assert_allclose(np.sort(shown), np.sort(expected))


def test_what_a_group_took_changes_no_answer_to_it(
    line: Line, records: list[PublishedPlacement], tmp_path: Path
) -> None:
    doubled = [
        replace(one, step_time_s=2 * one.step_time_s) if i < 6 else one
        for i, one in enumerate(records)
    ]
    again = judged(doubled, tmp_path)
    assert again is not None
    own = np.array(line.groups) == "2x64"
    np.testing.assert_array_equal(again.predicted[own], line.predicted[own])
    np.testing.assert_allclose(again.measured[own], 2 * line.measured[own])
    # The other size learns from it.
    assert (again.predicted[~own] != line.predicted[~own]).all()


def test_steps_that_take_long_to_capture_are_left_out(tmp_path: Path) -> None:
    many = [plan_record(2, width, Plan(data=1), 1, micro_batches=8) for width in (64, 128)]
    assert judged(many, tmp_path) is None

"""Columns of whole steps: finite, named, and equal to sums over nodes."""

from __future__ import annotations

from dataclasses import replace

import joint_world as world
import numpy as np
import pytest

from perfmodel.features.steps import whole_step
from perfmodel.features.steps.memory_time import cache_of, memory_time_s, reuse_of_rows
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import step_table
from perfmodel.features.steps.whole_step import SHAPE_COLUMNS, WHOLE_COLUMNS, whole_rows
from perfmodel.types import Compiler

STEPS = [sample.step for sample in world.samples()]
ROWS, REFERENCE = whole_rows(step_table(STEPS))


def _columns(step: Step) -> dict[str, float]:
    rows, _ = whole_rows(step_table([step]))
    return dict(zip(WHOLE_COLUMNS, rows[0].tolist(), strict=True))


def test_every_row_is_finite_and_every_column_named_once() -> None:
    # "cpu" is a setting and a fact of the device: the same value twice.
    twice = [name for name in set(WHOLE_COLUMNS) if WHOLE_COLUMNS.count(name) > 1]
    assert set(twice) <= {"cpu"}
    assert ROWS.shape == (len(STEPS), len(WHOLE_COLUMNS)) and np.isfinite(ROWS).all()
    assert REFERENCE.shape == (len(STEPS), 4)
    assert np.isfinite(REFERENCE).all() and np.all(REFERENCE >= 0)
    assert np.all(REFERENCE.sum(axis=1) > 0)


def test_reference_times_are_sums_over_rows() -> None:
    rows, reference = whole_rows(step_table(STEPS, as_stated=True))
    for position in (0, 100, len(STEPS) - 1):
        step = STEPS[position]
        sketch, spec = step.sketch, step.accelerator
        bandwidth = np.array([spec.bandwidth_bytes_per_s])
        cache = np.array(cache_of(spec))[:, None]
        roofline = np.maximum(
            sketch.flops / spec.peak_flops["fp32"],
            memory_time_s(sketch.traffic_bytes, bandwidth, reuse_of_rows(sketch).T, cache),
        )
        contraction = float((sketch.count * roofline)[sketch.matrix].sum())
        other = float((sketch.count * roofline)[~sketch.matrix].sum())
        assert reference[position, 0] == pytest.approx(contraction)
        assert reference[position, 1] == pytest.approx(other)
        found = dict(zip(WHOLE_COLUMNS, rows[position].tolist(), strict=True))
        assert 2 ** found["log_roofline_s"] == pytest.approx(contraction + other, rel=1e-4)
        assert 2 ** found["log_nodes"] == pytest.approx(sketch.count.sum(), rel=1e-4)


def test_shares_of_time_add_up() -> None:
    chosen = [i for i, name in enumerate(WHOLE_COLUMNS) if name.startswith("time_share_")]
    assert ROWS[:, chosen].sum(axis=1) == pytest.approx(np.ones(len(ROWS)), rel=1e-4)
    for name in ("compute_share", "memory_share", "memory_bound_share"):
        values = ROWS[:, WHOLE_COLUMNS.index(name)]
        assert np.all((values >= 0) & (values <= 1 + 1e-5)), name


def test_a_compiler_saves_launches_and_traffic() -> None:
    eager, fused = _columns(STEPS[0]), _columns(replace(STEPS[0], compiler=Compiler.INDUCTOR))
    assert fused["log_launches"] <= eager["log_launches"]
    assert fused["log_roofline_s"] <= eager["log_roofline_s"]


def test_a_row_depends_on_its_own_step_alone() -> None:
    # One after the other, all at once, and over the edge of a block.
    few = STEPS[:5]
    alone = np.concatenate([whole_rows(step_table([step]))[0] for step in few])
    assert np.allclose(alone, ROWS[:5], rtol=1e-6)
    block = whole_step._BLOCK
    many, _ = whole_rows(step_table([STEPS[0]] * (block + 1)))
    assert np.array_equal(many[0], many[block])


def test_shape_columns_name_nothing_of_the_device() -> None:
    names = {WHOLE_COLUMNS[i] for i in SHAPE_COLUMNS}
    assert not names & {"log_roofline_s", "log_cores", "log_bandwidth", "training", "cores"}
    assert len(SHAPE_COLUMNS) == len(set(SHAPE_COLUMNS)) > 20


def test_no_steps_have_no_rows() -> None:
    rows, reference = whole_rows(step_table([]))
    assert rows.shape == (0, len(WHOLE_COLUMNS)) and reference.shape == (0, 4)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.observed_rows import fabrics, settings
from perfmodel.estimator.placing.cells import Cell, CellStep
from perfmodel.estimator.placing.columns import ReplicaColumns
from perfmodel.estimator.placing.placed import captured_step, placed_step, predicted_cell
from perfmodel.estimator.placing.replicas import Predictions, is_replicated, replicated_steps
from perfmodel.estimator.placing.slowdowns import Slowdown
from perfmodel.estimator.tables.curve import CurveQuestion, placement_of
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode

PLAIN = (
    "A10",
    "8xA10",
    "3xV100-SXM2-16GB",
    "64xA100-SXM4-80GB",
    "2x(8xH100-SXM5-80GB)@ib-400g",
    "40x(1xT4)@eth-10g/2",
    "9x(4xGB200)",
    "2xH100-SXM5-80GB+3xA10",
    "MI300X+A10+L4",
    "4xA10 zero=1",
    "3x(2xA10)@eth-25g zero=2",
    "(4+1)xA100@ib-100g zero=3",
    "T4 zero=3",
)
SLOWED = (
    "A10 fraction=0.5",
    "A100-SXM4-40GB/1g.5gb",
    "2xA10 power_limit_w=90",
    "2xH100-SXM5-80GB+3xA10 power_limit_w=180",
    "2x(8xA100-SXM4-80GB)@ib-400g zero=1 power_limit_w=250",
)
SHARED = {
    "nodes": [{"accelerator": "A10", "count": 4}],
    "shared_with": ["ResNet-18", {"model": "zoo/two", "mode": "inference", "batch_size": 4}],
}
OTHER = ("A10 cores=2", "4xA10 tp=2")


MODES = [(model, mode) for model in ("zoo/one", "zoo/two") for mode in Mode]


def close(found: CellStep, expected: CellStep) -> bool:
    """Tell whether two steps differ by rounding at most."""
    pairs = zip(_numbers(found), _numbers(expected), strict=True)
    return found.basis is expected.basis and all(
        a == pytest.approx(b, rel=1e-12, abs=1e-18) for a, b in pairs
    )


def _numbers(step: CellStep) -> tuple[float, ...]:
    return (*step.parts, step.step_time_s, step.samples_per_second, step.low, step.high)


def in_blocks(cell: Cell, slow: Sequence[Slowdown] = ()) -> CellStep:
    """Answer a cell of replicas as those are answered that are none."""
    return placed_step(cell.prepared, cell.placement, cell.predictions, slow)


def by_name(cell: Cell) -> Predictions:
    """Return what is predicted of a cell by the names of its accelerators."""
    names = [spec.name for spec in cell.placement.accelerators]
    return dict(zip(names, cell.predictions, strict=True))


def test_numbers_columns_and_blocks_answer_alike(estimator: Estimator) -> None:
    for model, mode in MODES:
        job = Job(model=model, mode=mode, batch_size=7, accumulation_steps=2)
        prepared = estimator.core.prepare(job)
        for text in PLAIN:
            placement = estimator.core.resolve(parse_placement(text))
            cell = predicted_cell(estimator.core, prepared, placement)
            in_columns = in_blocks(cell)
            assert close(captured_step(cell), in_columns), (model, mode, text)
            columns = ReplicaColumns.of([placement, placement])
            block = replicated_steps([prepared] * 2, [by_name(cell)] * 2, columns)
            assert close(block.at((1, 1)), in_columns), (model, mode, text)


@pytest.mark.parametrize("asked", [*SLOWED, SHARED])
def test_what_slows_replicas_down_is_answered_alike(estimator: Estimator, asked: Any) -> None:
    for model, mode in MODES:
        job = Job(model=model, mode=mode, batch_size=7, accumulation_steps=2)
        prepared = estimator.core.prepare(job)
        placement = estimator.core.resolve(parse_placement(asked))
        cell = predicted_cell(estimator.core, prepared, placement)
        assert placement.is_slowed and is_replicated(prepared, placement)
        found = captured_step(cell)
        expected = in_blocks(cell, found.slowdowns)
        assert close(found, expected)
        assert found.half_width == pytest.approx(expected.half_width, rel=1e-12)
        assert found.slowdowns == expected.slowdowns


def test_growing_counts_need_no_placements(estimator: Estimator) -> None:
    spec, counts = estimator.accelerators.get("A100-SXM4-80GB"), (1, 2, 7, 8, 9, 16, 64)
    closed = ReplicaColumns.over_counts(spec, counts, per_host=8, zero_stage=1)
    asked = CurveQuestion(accelerator=spec.name, counts=counts, zero_stage=1)
    single = [estimator.core.resolve(placement_of(n, asked)) for n in counts]
    for model, mode in MODES:
        prepared = estimator.core.prepare(Job(model=model, mode=mode, batch_size=7))
        predictions = by_name(predicted_cell(estimator.core, prepared, single[0]))
        one, each = (
            replicated_steps([prepared], [predictions], columns)
            for columns in (closed, ReplicaColumns.of(single))
        )
        assert all(close(one.at((0, at)), each.at((0, at))) for at in range(len(counts)))
    several = ReplicaColumns.of(single)
    assert (fabrics(closed), settings(closed)) == (fabrics(several), settings(several))
    assert closed.machine == several.machine


@pytest.mark.parametrize("text", OTHER)
def test_what_is_not_plain_is_left_to_columns(estimator: Estimator, text: str) -> None:
    prepared = estimator.core.prepare(Job(model="zoo/one"))
    assert not is_replicated(prepared, estimator.core.resolve(parse_placement(text)))


def test_gradients_that_are_shared_cost_time(estimator: Estimator) -> None:
    job = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=8)
    alone = estimator.estimate(job, parse_placement("A10"))
    eight = estimator.estimate(job, parse_placement("8x(1xA10)@eth-10g"))
    # 67 MB of gradients over 1.25 GB/s: 7/8 * 2 * 67 MB / 1.25 GB/s = 94 ms at least.
    assert alone.sync_time_s == 0.0
    assert eight.sync_time_s > 0.094


def test_memory_is_worked_out_once_for_all_that_agree(estimator: Estimator) -> None:
    job = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=8)
    peaks = {
        text: estimator.estimate(job, parse_placement(text)).memory.peak_bytes
        for text in ("A10", "2xA10", "8xA10", "2xA10 zero=3", "8xA10 zero=3", "8xA10 tp=1")
    }
    # Buckets are copies of the gradients from two replicas on; sharded parameters shrink with them.
    assert peaks["A10"] < peaks["2xA10"] == peaks["8xA10"] == peaks["8xA10 tp=1"]
    assert peaks["8xA10 zero=3"] < peaks["2xA10 zero=3"] < peaks["2xA10"]
    # One accelerator, several, and two sharded ones are told apart.
    assert sum(what == "memory" for what, *_ in estimator.core.prepare(job).facts) == 4

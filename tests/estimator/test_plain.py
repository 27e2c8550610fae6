from __future__ import annotations

from typing import Any

import pytest

from perfmodel.estimator import Estimator
from perfmodel.estimator.placing.one_cell import is_plain, plain_answer
from perfmodel.estimator.tables.estimates import compose
from perfmodel.graph.job import Job
from perfmodel.placement.estimate import Estimate
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
OTHER = ("A10 fraction=0.5", "A100-SXM4-40GB/1g.5gb", "A10 cores=2", "4xA10 tp=2")


def both_ways(estimator: Estimator, job: Job, text: str) -> tuple[Estimate, Estimate]:
    """Return the answer on plain numbers, and from columns of one cell."""
    prepared, placement = estimator.prepare(job), estimator.resolve(parse_placement(text))
    predictions = estimator.predictions([(prepared, a) for a in placement.accelerators])
    placed = estimator.placed(prepared, placement, predictions)
    return (
        plain_answer(prepared, placement, predictions),
        compose(prepared, placement, predictions, placed),
    )


def numbers(value: Any) -> Any:
    """Return JSON whose numbers may differ by rounding."""
    if isinstance(value, dict):
        return {name: numbers(one) for name, one in value.items()}
    return pytest.approx(value, rel=1e-12) if isinstance(value, float) else value


@pytest.mark.parametrize("text", PLAIN)
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("asked", ["zoo/one", "zoo/two"])
def test_numbers_answer_as_columns_do(
    estimator: Estimator, asked: str, mode: Mode, text: str
) -> None:
    job = Job(model=asked, mode=mode, batch_size=7, accumulation_steps=2)
    plain, columns = both_ways(estimator, job, text)
    assert plain.to_dict() == numbers(columns.to_dict())


@pytest.mark.parametrize("text", OTHER)
def test_what_is_not_plain_is_left_to_columns(estimator: Estimator, text: str) -> None:
    prepared = estimator.prepare(Job(model="zoo/one"))
    assert not is_plain(prepared, estimator.resolve(parse_placement(text)))


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
    assert len(estimator.prepare(job).memories) == 4

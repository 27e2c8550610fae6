from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator, basis_names
from perfmodel.estimator.tables.table import NUMBERS
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode

JOBS = [
    Job(model=model, mode=mode, batch_size=batch_size)
    for model in ("zoo/one", "zoo/two")
    for mode in Mode
    for batch_size in (1, 7, 10**9)
]
PLACEMENTS = [
    parse_placement(text)
    for text in ("A10", "8xA10", "H100-SXM5-80GB", "2xH100-SXM5-80GB+3xA10", "MI300X+A10+L4")
]


def test_every_cell_equals_the_single_answer(estimator: Estimator) -> None:
    matrix = estimator.matrix(JOBS, PLACEMENTS)
    names = basis_names(matrix.basis)
    for row, job in enumerate(JOBS):
        for column, placement in enumerate(PLACEMENTS):
            one = estimator.estimate(job, placement)
            cell = row, column
            # Columns and plain numbers add up in another order.
            for name in ("samples_per_second", "low", "high"):
                alone = getattr(one.throughput, name)
                assert getattr(matrix, name)[cell] == pytest.approx(alone, rel=1e-12)
            assert matrix.step_time_s[cell] == pytest.approx(one.step_time_s, rel=1e-12)
            assert matrix.peak_bytes[cell] == one.memory.peak_bytes
            assert matrix.fits[cell] == one.memory.fits
            assert matrix.out_of_distribution[cell] == one.out_of_distribution
            assert names[row][column] == one.basis
            assert set(one.warnings) <= set(matrix.warnings)
    assert matrix.answered.all()
    assert matrix.model_version == "counting/1"


def test_a_prepared_job_has_the_row_of_the_job(estimator: Estimator) -> None:
    prepared = [estimator.core.prepare(job) for job in JOBS]
    one, other = estimator.matrix(prepared, PLACEMENTS), estimator.matrix(JOBS, PLACEMENTS)
    for name in (*NUMBERS, "basis", "fits", "answered"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    assert one.warnings == other.warnings


def test_each_job_is_predicted_once_on_each_accelerator_in_one_call(
    estimator: Estimator, model: Any
) -> None:
    estimator.matrix(JOBS, PLACEMENTS)
    # A10, H100, MI300X and L4 under 12 jobs, with all cards of their chips.
    assert model.calls == [12 * (11 + 10 + 2 + 8)]


def test_what_is_bad_costs_its_own_cells(estimator: Estimator, model: Any) -> None:
    model.fails_on = "T4"
    jobs = [Job(model="zoo/one"), Job(model="zoo/none"), InvalidInputError("a bad job")]
    placements = [
        parse_placement("A10"),
        parse_placement("A10+T4"),
        parse_placement("nowhere"),
        InvalidInputError("a bad placement"),
    ]
    matrix = estimator.matrix(jobs, placements)
    assert matrix.answered.tolist() == [[True, False, False, False], [False] * 4, [False] * 4]
    assert np.isfinite(matrix.samples_per_second[matrix.answered]).all()
    assert np.isnan(matrix.samples_per_second[~matrix.answered]).all()
    where = [(error.job, error.placement) for error in matrix.errors]
    assert where == [(1, None), (2, None), (None, 2), (None, 3), (0, 1)]
    assert matrix.unpriced_operators == ({}, None, None)


@pytest.mark.parametrize("bad", ["nowhere", InvalidInputError("a bad placement")])
def test_a_bad_placement_before_a_good_one_costs_a_job_type_its_own_cell(
    estimator: Estimator, bad: Any
) -> None:
    first = parse_placement(bad) if isinstance(bad, str) else bad
    job = Job(job_type="mystery", mode=Mode.TRAINING, batch_size=8)
    matrix = estimator.matrix([job], [first, parse_placement("A10")])
    assert matrix.answered.tolist() == [[False, True]]
    assert [(error.job, error.placement) for error in matrix.errors] == [(None, 0)]
    alone = estimator.matrix([job], [parse_placement("A10")])
    assert matrix.step_time_s[0, 1] == alone.step_time_s[0, 0]


@pytest.mark.parametrize("name", [{"model": "zoo/two"}, {"job_type": "mystery"}])
def test_a_step_that_is_told_with_every_batch_was_measured_once(
    estimator: Estimator, name: dict[str, str]
) -> None:
    jobs = [Job(**name, mode=Mode.TRAINING, batch_size=2000 * n) for n in (1, 2, 4)]
    places = [parse_placement("A10"), parse_placement("4xA10")]

    def told() -> tuple[Observation, ...]:
        facts: dict[str, Any] = {"batch_size": 2000, "step_time_s": 3e-3}
        return (Observation(placement=parse_placement("A10"), **facts),)

    once = estimator.matrix(jobs, places, {0: told()})
    with_all = estimator.matrix(jobs, places, {row: told() for row in range(3)})
    thrice = estimator.matrix(jobs, places, {0: told() * 3})
    for column in NUMBERS:
        same = getattr(once, column)
        np.testing.assert_array_equal(getattr(with_all, column), same)
    # Three measurements of one cell are surer than one.
    assert (thrice.high / thrice.low)[0, 0] < (once.high / once.low)[0, 0]


def test_a_matrix_without_any_answer_is_still_an_answer(estimator: Estimator) -> None:
    matrix = estimator.matrix([Job(model="zoo/none")], [parse_placement("A10")])
    assert not matrix.answered.any()
    assert matrix.coverage is None
    assert matrix.model_version is None
    assert basis_names(matrix.basis) == [[None]]


def test_a_hundred_thousand_cells_are_answered(estimator: Estimator) -> None:
    jobs = [Job(model="zoo/one", batch_size=size) for size in range(1, 101)]
    placements = [parse_placement(f"{count}xA10") for count in range(1, 1001)]
    matrix = estimator.matrix(jobs, placements)
    assert matrix.answered.shape == (100, 1000)
    assert matrix.answered.all()
    # Ideal data parallelism: count times the throughput of one.
    one = matrix.samples_per_second[:, :1]
    np.testing.assert_allclose(
        matrix.samples_per_second / one, np.tile(np.arange(1, 1001), (100, 1))
    )

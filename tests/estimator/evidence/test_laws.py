"""Laws of evidence, over random jobs, placements and measurements."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.observed_job import observed_job
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Basis, Mode

PLACES = (
    "A10", "2xA10", "4xA10", "8xA10", "2x(4xA10)@eth-25g", "V100-SXM2-16GB", "4xV100-SXM2-16GB",
    "A10+L4", {"nodes": [{"accelerator": "A10", "count": 4}], "plan": {"data": 4, "zero_stage": 2}},
    {"nodes": [{"accelerator": "A10"}], "power_limit_w": 100},
)  # fmt: skip
SEEDS = range(6)


def _job(rng: random.Random, *, named: bool) -> Job:
    batch = rng.choice([64, 500, 2000])
    if named:
        return Job(job_type="script", mode=Mode.TRAINING, batch_size=batch)
    return Job(model="zoo/two", mode=Mode.TRAINING, batch_size=batch)


def _cells(
    estimator: Estimator, rng: random.Random, job: Job, count: int, reporter: str = ""
) -> list[Observation]:
    """Return steps of a job, each three to twenty times as long as predicted."""
    found = []
    for place in rng.sample(PLACES if job.job_type is None else PLACES[:7], count):
        placement = parse_placement(place)
        predicted_s = 0.01 * job.batch_size / 64
        if job.job_type is None:
            predicted_s = estimator.estimate(job, placement).step_time_s
        step_s = predicted_s * float(np.exp(rng.uniform(1.0, 3.0)))
        found.append(
            Observation(
                placement=placement, batch_size=job.batch_size, step_time_s=step_s,
                reporter=reporter,
            )
        )  # fmt: skip
    return found


@pytest.mark.parametrize("named", [False, True], ids=["captured", "job type"])
@pytest.mark.parametrize("seed", SEEDS)
def test_an_observed_cell_is_echoed(estimator: Estimator, seed: int, named: bool) -> None:
    rng = random.Random(seed)
    job = _job(rng, named=named)
    seen = _cells(estimator, rng, job, rng.randint(1, 6))
    for one in seen:
        answer = estimator.estimate(job, one.placement, seen)
        assert answer.step_time_s == pytest.approx(one.step_time_s, rel=0.05)
        assert answer.basis is Basis.MEASURED
        assert answer.memory.fits is not False


@pytest.mark.parametrize("seed", SEEDS)
def test_three_measurements_are_echoed_as_their_median(estimator: Estimator, seed: int) -> None:
    rng = random.Random(seed)
    job = _job(rng, named=False)
    seen = _cells(estimator, rng, job, 4)
    often = [
        replace(seen[0], step_time_s=seen[0].step_time_s * factor) for factor in (0.97, 1.0, 1.5)
    ]
    answer = estimator.estimate(job, seen[0].placement, [*often, *seen[1:]])
    assert answer.step_time_s == pytest.approx(seen[0].step_time_s, rel=0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_job_type_that_is_told_stands_over_what_is_stored(
    estimator: Estimator, seed: int
) -> None:
    rng = random.Random(seed)
    job = _job(rng, named=True)
    mine = _cells(estimator, rng, job, 3)
    stored = [
        replace(one, step_time_s=3.0 * one.step_time_s, reporter="a") for one in mine for _ in "123"
    ]
    for one in mine:
        answer = estimator.estimate(job, one.placement, [*mine, *stored])
        assert answer.step_time_s == pytest.approx(one.step_time_s, rel=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_asks_stands_over_what_is_stored(estimator: Estimator, seed: int) -> None:
    rng = random.Random(seed)
    job = _job(rng, named=False)
    mine = _cells(estimator, rng, job, 3)
    stored = [
        replace(one, step_time_s=one.step_time_s * factor, reporter=name)
        for one in mine
        for name, factor in (("a", 0.6), ("b", 3.0), ("b", 3.1))
    ]
    strangers = Strangers(estimator.core, [replace(one, job=job) for one in stored])
    prepared = estimator.core.prepare(job)
    observed = observed_job(estimator.core, prepared, [*mine, *stored], strangers)
    for one in mine:
        answer = answer_cell(
            estimator.core, prepared, estimator.core.resolve(one.placement), observed
        )
        assert answer.step_time_s == pytest.approx(one.step_time_s, rel=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_three_reporters_of_a_cell_the_middle_one_counts(
    estimator: Estimator, seed: int
) -> None:
    rng = random.Random(seed)
    job = _job(rng, named=False)
    (one,) = _cells(estimator, rng, job, 1)
    told = [
        replace(one, step_time_s=one.step_time_s * factor, reporter=name)
        for name, factor, times in (("honest", 1.0, 1), ("other", 1.02, 1), ("liar", 2.0, 5))
        for _ in range(times)
    ]
    answer = estimator.estimate(job, one.placement, told)
    assert answer.step_time_s == pytest.approx(1.02 * one.step_time_s, rel=0.05)


@pytest.mark.parametrize("named", [False, True], ids=["captured", "job type"])
@pytest.mark.parametrize("seed", SEEDS)
def test_order_changes_no_bit(estimator: Estimator, seed: int, named: bool) -> None:
    rng = random.Random(seed)
    job = _job(rng, named=named)
    seen = _cells(estimator, rng, job, 5)
    seen += [replace(one, step_time_s=1.1 * one.step_time_s) for one in seen[:2]]
    asked = parse_placement("2xV100-SXM2-16GB")
    first = estimator.estimate(job, asked, seen)
    rng.shuffle(seen)
    assert estimator.estimate(job, asked, seen) == first


@pytest.mark.parametrize("seed", SEEDS)
def test_a_matrix_answers_as_a_single_question_does(estimator: Estimator, seed: int) -> None:
    rng = random.Random(seed)
    job = _job(rng, named=False)
    batches = [job, replace(job, batch_size=2 * job.batch_size)]
    seen = {
        0: tuple(_cells(estimator, rng, job, 3)),
        1: tuple(_cells(estimator, rng, batches[1], 2)),
    }
    placements = [parse_placement(place) for place in PLACES]
    table = estimator.matrix(batches, placements, seen)
    every = [*seen[0], *seen[1]]
    for row, one in enumerate(batches):
        single = [estimator.estimate(one, placement, every) for placement in placements]
        assert table.step_time_s[row] == pytest.approx([a.step_time_s for a in single], rel=1e-9)
        assert table.fits[row].tolist() == [a.memory.fits for a in single]

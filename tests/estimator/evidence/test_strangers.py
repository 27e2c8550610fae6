"""What anybody reports of other jobs moves an answer as far as reporters agree, and no further."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.observed_job import observed_job
from perfmodel.estimator.evidence.strangers import ONE_VOICE, Strangers, agreed, agreed_level
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode, Precision

JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)
OTHERS = [
    Job(model="zoo/two", mode=Mode.TRAINING, batch_size=1000, precision=precision)
    for precision in (Precision.TF32, Precision.AMP_FP16, Precision.AMP_BF16)
]
PLACES = ("A10", "2xA10", "4xA10")


def reported(
    estimator: Estimator, reporter: str, factor: float, *, jobs: list[Job] = OTHERS
) -> list[Observation]:
    """Return steps of other jobs that took so many times as long as predicted."""
    found = []
    for job in jobs:
        for place in map(parse_placement, PLACES):
            answer = estimator.estimate(job, place)
            sync_s = (
                factor * answer.breakdown.exposed_communication_s
                if place.accelerator_count > 1
                else None
            )
            found.append(
                Observation(
                    placement=place, batch_size=job.batch_size, job=job, reporter=reporter,
                    step_time_s=factor * answer.step_time_s, sync_time_s=sync_s,
                )
            )  # fmt: skip
    return found


def ask(
    estimator: Estimator, place: str, stored: list[Observation], own: tuple[Observation, ...] = ()
) -> Estimate:
    strangers = Strangers(estimator.core, stored)
    prepared = estimator.core.prepare(JOB)
    observed = observed_job(estimator.core, prepared, own, strangers)
    return answer_cell(
        estimator.core, prepared, estimator.core.resolve(parse_placement(place)), observed
    )


@pytest.mark.parametrize("place", ["A10", "4xA10", "8xA10", "2x(4xA10)@eth-25g"])
@pytest.mark.parametrize("factor", [0.9, 2.0, 1e3])
def test_one_reporter_moves_no_job_of_others_far(
    estimator: Estimator, place: str, factor: float
) -> None:
    before = ask(estimator, place, [])
    invented = [
        Observation(
            placement=parse_placement("8xA10"), batch_size=n, step_time_s=1e3, sync_time_s=9e2,
            job=Job(job_type=f"invented {n}", mode=Mode.TRAINING, batch_size=n), reporter="liar",
        )
        for n in range(1, 25)
    ]  # fmt: skip
    after = ask(estimator, place, [*reported(estimator, "liar", factor), *invented])
    assert abs(np.log(after.step_time_s / before.step_time_s)) <= ONE_VOICE * (1 + 1e-9)
    assert after.basis is before.basis


def test_what_many_agree_on_is_said_and_makes_the_answer_wider(estimator: Estimator) -> None:
    stored = [one for name in "abcdef" for one in reported(estimator, name, 2.0)]
    before, after = ask(estimator, "4xA10", []), ask(estimator, "4xA10", stored)
    assert 1.2 * before.step_time_s < after.step_time_s < 2.0 * before.step_time_s
    (said,) = [text for text in after.warnings if "reporters" in text]
    assert "6 reporters" in said
    assert f"{after.step_time_s / before.step_time_s:.2f} times" in said
    widths = [one.throughput.high / one.throughput.low for one in (before, after)]
    assert widths[1] > widths[0]
    assert after.basis is before.basis
    curve = estimator.matrix(
        [JOB], [parse_placement("4xA10")], {}, Strangers(estimator.core, stored)
    )
    assert curve.step_time_s[0, 0] == pytest.approx(after.step_time_s)
    assert said in curve.warnings
    asked = CurveQuestion(accelerator="A10", counts=(1, 4))
    drawn = estimator.curve(JOB, asked, (), Strangers(estimator.core, stored))
    assert drawn.step_time_s[1] == pytest.approx(after.step_time_s)
    assert said in drawn.warnings


@pytest.mark.parametrize("lie", [0.5, 2.0])
def test_three_liars_of_ten_hardly_count(estimator: Estimator, lie: float) -> None:
    rng = np.random.default_rng(0)
    honest = {
        name: float(factor)
        for name, factor in zip("abcdefghij", rng.normal(1.4, 0.05, 10), strict=True)
    }
    lied = {**honest, **{name: lie * honest[name] for name in "cfh"}}
    found = [
        ask(estimator, "4xA10", [one for n, f in some.items() for one in reported(estimator, n, f)])
        for some in (honest, lied)
    ]
    assert abs(np.log(found[1].step_time_s / found[0].step_time_s)) < np.log(1.05)


def test_a_job_that_was_observed_itself_does_not_listen(estimator: Estimator) -> None:
    own = (Observation(placement=parse_placement("A10"), batch_size=2000, step_time_s=3e-3),)
    stored = [one for name in "abcdef" for one in reported(estimator, name, 4.0)]
    for place in ("A10", "4xA10"):
        assert ask(estimator, place, stored, own) == ask(estimator, place, [], own)


def test_the_order_of_reports_does_not_matter(estimator: Estimator) -> None:
    stored = [
        one
        for name, f in zip("abcd", (1.2, 1.5, 2.0, 9.0), strict=True)
        for one in reported(estimator, name, f)
    ]
    first = ask(estimator, "4xA10", stored)
    random.Random(0).shuffle(stored)
    assert ask(estimator, "4xA10", stored) == first


def test_what_is_known_already_is_not_predicted_again(estimator: Estimator) -> None:
    stored = reported(estimator, "a", 2.0)
    first = Strangers(estimator.core, stored)
    shift = first.shift("A10", "")
    assert not Strangers(estimator.core, stored).is_ready("A10", "")
    assert first.is_ready("A10", "") and first.is_ready("T4", "")
    assert Strangers(estimator.core, stored[1:]).shift("A10", "").reporters == 1
    assert shift.compute == pytest.approx(ONE_VOICE)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 10, 32])
def test_a_voice_more_moves_what_is_agreed_by_its_weight(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(50):
        # Of any level and scatter, some of them apart from the others.
        said = rng.normal(rng.normal(0.0, 0.5), 0.1, count) + 0.7 * (rng.uniform(size=count) < 0.3)
        weights = rng.uniform(size=count)
        before = agreed(said.tolist(), weights.tolist())
        assert min(*said, 0.0) <= before <= max(*said, 0.0)
        assert abs(before) <= ONE_VOICE * weights.sum() * (1 + 1e-9)
        for lie in (-5.0, before, 5.0):
            after = agreed([*said, lie], [*weights, 0.8])
            assert abs(after - before) <= 0.8 * ONE_VOICE * (1 + 1e-9)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 10])
def test_a_reporter_more_moves_what_is_agreed_by_two_voices_at_most(count: int) -> None:
    # By its own, and by what it changes of the weights of the others.
    rng = np.random.default_rng(count)
    for _ in range(20):
        level = rng.normal(0.0, 0.4)
        jobs = {f"job {number}": level + rng.normal(0.0, 0.2) for number in range(4)}
        honest = {f"reporter {number}": jobs for number in range(count)}
        before = agreed_level("machine", honest)
        for lie in (-3.0, -0.7, 0.7, 3.0):
            more = {**honest, "stranger": {job: off + lie for job, off in jobs.items()}}
            assert abs(agreed_level("machine", more) - before) <= 2 * ONE_VOICE * (1 + 1e-9)


def test_many_that_agree_are_believed_to_the_middle() -> None:
    said = np.random.default_rng(0).normal(0.6, 0.05, 31)
    assert agreed(said.tolist()) == pytest.approx(np.median(said), abs=0.05)
    assert agreed([float("nan"), *said]) == agreed(said.tolist())
    assert agreed([]) == 0.0


def test_what_is_told_of_a_machine_stands_over_strangers(estimator: Estimator) -> None:
    stored = [one for name in "abcdef" for one in reported(estimator, name, 4.0)]
    told = tuple(replace(one, reporter="") for one in reported(estimator, "", 1.5))
    assert ask(estimator, "4xA10", stored, told) == ask(estimator, "4xA10", [], told)


def test_what_is_stored_is_weighed_once(estimator: Estimator) -> None:
    stored = [
        Observation(
            placement=parse_placement(place),
            batch_size=2000,
            step_time_s=3e-3,
            reporter="a",
            job=JOB,
        )
        for place in PLACES
    ]
    prepared = estimator.core.prepare(JOB)
    first = observed_job(estimator.core, prepared, stored)
    assert first is not None
    again = observed_job(estimator.core, prepared, first.observations)
    assert again is not None and again.calibration is first.calibration

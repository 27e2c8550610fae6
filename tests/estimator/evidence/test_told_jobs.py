"""What other jobs reached on a machine sharpens the answers about a job there, and only there."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.observed_job import observed_job
from perfmodel.estimator.evidence.told_jobs import MOST_CELLS, MOST_JOBS, ToldJobs
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.estimator.tables.estimates import answer_cell, answer_from_memory
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Basis, Mode, Precision

JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)
#: Of the same network, so that it shares as many gradients; another family of jobs all the same.
OTHER = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=1000, precision=Precision.TF32)
PLACES = ("A10", "2xA10", "4xA10", "8xA10")


def _slower(estimator: Estimator, job: Job, place: str, factor: float, **more: Any) -> Observation:
    """Return a step that took so many times as long as predicted."""
    placement = parse_placement(place)
    step_s = factor * estimator.estimate(job, placement).step_time_s
    facts = {"batch_size": job.batch_size, "step_time_s": step_s, "job": job, **more}
    return Observation(placement=placement, **facts)


def _of_other(estimator: Estimator, factor: float = 3.0) -> tuple[Observation, ...]:
    return tuple(_slower(estimator, OTHER, place, factor) for place in PLACES)


def _ask(estimator: Estimator, place: str, *seen: Observation) -> Estimate:
    return estimator.estimate(JOB, parse_placement(place), seen)


def test_a_machine_that_is_slow_for_another_job_is_slow_for_this_one(estimator: Estimator) -> None:
    before, after = (_ask(estimator, "4xA10", *seen) for seen in ((), _of_other(estimator)))
    # Three times as slow for the other job; this one, with more to compute, is not known to be.
    assert 1.2 * before.step_time_s < after.step_time_s < 5.0 * before.step_time_s
    widths = [a.throughput.high / a.throughput.low for a in (before, after)]
    assert widths[1] <= widths[0] * (1 + 1e-9)
    # It was not observed itself.
    assert after.basis is before.basis is not Basis.CALIBRATED


def test_who_is_moved_far_by_other_jobs_is_told(estimator: Estimator) -> None:
    seen = _of_other(estimator)
    before, after = _ask(estimator, "4xA10"), _ask(estimator, "4xA10", *seen)
    (said,) = set(after.warnings) - set(before.warnings)
    times = re.fullmatch(
        r"Observed steps of other jobs on A10 make the step about (\S+) times .*", said
    )
    assert times and float(times[1]) == pytest.approx(
        after.step_time_s / before.step_time_s, rel=0.3
    )
    assert said in estimator.matrix([JOB], [parse_placement("4xA10")], {0: seen}).warnings
    # Who has steps of the job itself, or is hardly moved, need not know.
    own = _slower(estimator, JOB, "A10", 1.5)
    for asked in ((own, *seen), tuple(_of_other(estimator, 1.02))):
        assert not any("other jobs" in text for text in _ask(estimator, "4xA10", *asked).warnings)


def test_another_machine_does_not_move(estimator: Estimator) -> None:
    for place in ("4xL4", "8xH100-SXM5-80GB", "A10+L4"):
        assert _ask(estimator, place, *_of_other(estimator)) == _ask(estimator, place)


def test_they_help_where_little_is_known_of_the_job_itself(estimator: Estimator) -> None:
    own = Observation(
        placement=parse_placement("A10"), batch_size=JOB.batch_size,
        step_time_s=_ask(estimator, "A10").step_time_s,
    )  # fmt: skip
    others = tuple(
        _slower(estimator, OTHER, place, 3.0 if place != "A10" else 1.0) for place in PLACES
    )
    alone, both = _ask(estimator, "8xA10", own), _ask(estimator, "8xA10", own, *others)
    assert both.basis is Basis.CALIBRATED
    # It computes as predicted and waits longer for its links.
    assert both.step_time_s > 1.3 * alone.step_time_s
    assert both.breakdown.compute_s == pytest.approx(alone.breakdown.compute_s, rel=0.2)


def test_the_job_itself_is_none_of_the_other_jobs(estimator: Estimator) -> None:
    seen = _slower(estimator, JOB, "A10", 1.5)
    named, plain = seen, Observation(
        placement=seen.placement, batch_size=seen.batch_size, step_time_s=seen.step_time_s
    )  # fmt: skip
    assert _ask(estimator, "4xA10", named) == _ask(estimator, "4xA10", plain)


def test_neither_order_nor_repetition_matters(estimator: Estimator) -> None:
    seen = [*_of_other(estimator), _slower(estimator, JOB, "A10", 1.5)]
    first = _ask(estimator, "4xA10", *seen)
    random.Random(0).shuffle(seen)
    again = _ask(estimator, "4xA10", *seen, *[one for one in seen if one.job == OTHER])
    assert again.step_time_s == pytest.approx(first.step_time_s)


def test_kept_others_count_as_those_of_a_request(estimator: Estimator) -> None:
    seen = _of_other(estimator)
    prepared, placement = (
        estimator.core.prepare(JOB),
        estimator.core.resolve(parse_placement("4xA10")),
    )
    kept = observed_job(estimator.core, prepared, (), told=ToldJobs(estimator.core, seen))
    assert answer_cell(estimator.core, prepared, placement, kept) == _ask(estimator, "4xA10", *seen)


def test_what_is_in_memory_is_told_without_waiting(estimator: Estimator) -> None:
    prepared, placement = (
        estimator.core.prepare(JOB),
        estimator.core.resolve(parse_placement("4xA10")),
    )
    told = ToldJobs(estimator.core, _of_other(estimator))
    observed = observed_job(estimator.core, prepared, (), told=told)
    assert answer_from_memory(estimator.core, prepared, placement, observed) is None
    answer = answer_cell(estimator.core, prepared, placement, observed)
    assert answer_from_memory(estimator.core, prepared, placement, observed) == answer


def test_a_matrix_and_a_curve_are_cell_by_cell_the_same(estimator: Estimator) -> None:
    own = _slower(estimator, JOB, "2xA10", 1.4)
    alone = _slower(estimator, OTHER, "A10", 1.2)
    third = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=64, optimizer="adam")
    jobs = [JOB, OTHER, third]
    places = ("A10", "2xA10", "4xA10+4xA10", "A10+L4", "8xH100-SXM5-80GB")
    placements = [parse_placement(place) for place in places]
    for seen in ({0: (own,)}, {1: (alone,)}, {0: (own,), 1: (alone,)}):
        matrix = estimator.matrix(jobs, placements, seen)
        every = tuple(one for row in seen.values() for one in row)
        for row, job in enumerate(jobs):
            found = [estimator.estimate(job, placement, every) for placement in placements]
            step = [one.step_time_s for one in found]
            assert matrix.step_time_s[row] == pytest.approx(step, rel=1e-9)
            for name in ("samples_per_second", "low", "high"):
                each = [getattr(one.throughput, name) for one in found]
                assert getattr(matrix, name)[row] == pytest.approx(each, rel=1e-9)
    curve = estimator.curve(JOB, CurveQuestion(accelerator="A10", counts=(1, 2, 8)), (own, alone))
    each = [_ask(estimator, place, own, alone).step_time_s for place in ("A10", "2xA10", "8xA10")]
    assert curve.step_time_s == pytest.approx(np.array(each))


def test_a_mistake_in_what_is_said_of_another_job_is_pointed_at(estimator: Estimator) -> None:
    seen = _slower(estimator, OTHER, "A10", 1e-9)
    with pytest.raises(InvalidInputError) as refused:
        _ask(estimator, "A10", seen)
    assert refused.value.pointer == "/observations/0/step_time_s"


def test_a_bounded_number_counts(estimator: Estimator) -> None:
    jobs = [
        Job(model="zoo/one", mode=Mode.INFERENCE, batch_size=1, sequence_length=length)
        for length in range(1, MOST_JOBS + 5)
    ]
    seen = [
        Observation(placement=parse_placement("A10"), batch_size=b, step_time_s=1e-5 * b, job=job)
        for job in jobs
        for b in range(1, MOST_CELLS + 4)
    ]
    steps = ToldJobs(estimator.core, seen).steps("A10", "")
    assert steps is not None and len(steps.cells) == MOST_JOBS * MOST_CELLS


def test_a_step_that_is_told_under_two_names_of_a_card_counts_once(estimator: Estimator) -> None:
    once = _of_other(estimator)
    again = tuple(
        replace(one, placement=parse_placement(place.replace("A10", "NVIDIA-A10")))
        for one, place in zip(once, PLACES, strict=True)
    )
    assert _ask(estimator, "4xA10", *once, *again) == _ask(estimator, "4xA10", *once)

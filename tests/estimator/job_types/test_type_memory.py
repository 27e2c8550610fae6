"""Of a job type it is known that what is as tight as what ran out of memory does not fit."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.tight_cells import RAN_OUT_WARNING
from perfmodel.estimator.job_types.job_type_answers import BATCH_OF_NAME_WARNING, NO_GRAPH_WARNING
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.estimator.tables.ranking import Criterion, RankQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import RAN_OUT_S, Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Mode

JOB = Job(job_type="click-rates", mode=Mode.TRAINING, batch_size=64)


def _seen(placement: str, batch_size: int = 64, **more: Any) -> Observation:
    facts = {"step_time_s": 0.1 + batch_size / 1e3, **more}
    return Observation(placement=parse_placement(placement), batch_size=batch_size, **facts)


def _ran_out(placement: str, batch_size: int = 64, **more: Any) -> Observation:
    return _seen(placement, batch_size, step_time_s=RAN_OUT_S, **more)


def _ask(estimator: Estimator, placement: str, *seen: Observation, **job: Any) -> Estimate:
    return estimator.estimate(replace(JOB, **job), parse_placement(placement), seen)


@pytest.mark.parametrize(
    ("placement", "batch_size", "fits"),
    [
        ("A10", 64, False),
        ("A10", 65, False),
        ("A10", 63, None),
        # Less memory, and more; half of the same.
        ("T4", 64, False),
        ("T4", 63, None),
        ("A100-SXM4-80GB", 256, None),
        ("A10 fraction=0.5", 64, False),
        # Each replica holds all of it, and its buckets beside.
        ("4xA10", 64, False),
        ("4xT4", 128, False),
        # Replicas that share out hold less; a TPU keeps other things.
        ("4xA10 zero=3", 64, None),
        ("TPU-v2", 64, None),
    ],
)
def test_what_is_as_tight_is_refused(
    estimator: Estimator, placement: str, batch_size: int, fits: bool | None
) -> None:
    for seen in ((), (_seen("A10", 8),)):
        before = _ask(estimator, placement, *seen, batch_size=batch_size)
        after = _ask(estimator, placement, *seen, _ran_out("A10"), batch_size=batch_size)
        assert after.memory.fits is fits
        of_memory = {RAN_OUT_WARNING, NO_GRAPH_WARNING} & set(after.warnings)
        assert of_memory == {RAN_OUT_WARNING if fits is False else NO_GRAPH_WARNING}
        assert replace(after, memory=before.memory, warnings=before.warnings) == before


def test_a_batch_that_the_name_overrules_is_said(estimator: Estimator) -> None:
    said = BATCH_OF_NAME_WARNING.format(20, 64)
    named = replace(JOB, job_type="LM (batch size 20)")
    for job, is_said in ((named, True), (replace(named, batch_size=1), False), (JOB, False)):
        answer = estimator.estimate(job, parse_placement("A10"))
        assert (said in answer.warnings) is is_said


def test_what_several_ran_out_of_says_nothing_of_one(estimator: Estimator) -> None:
    assert _ask(estimator, "A10", _ran_out("2xA10")).memory.fits is None
    assert _ask(estimator, "8xA10", _ran_out("2xA10")).memory.fits is False
    shared_out = _ran_out("4xA10 zero=3")
    fits = [_ask(estimator, f"{count}xA10 zero=3", shared_out).memory.fits for count in (2, 4, 8)]
    assert fits == [None, False, None]


def test_what_ran_as_tight_wins(estimator: Estimator) -> None:
    for ran in (_seen("A10"), _seen("A10", 128), _seen("T4")):
        for seen in ((ran, _ran_out("A10")), (_ran_out("A10"), ran)):
            assert _ask(estimator, "A10", *seen, batch_size=65) == _ask(
                estimator, "A10", ran, batch_size=65
            )
            # The very cell is refused, unless it ran itself.
            fits = None if ran == _seen("A10") else False
            assert _ask(estimator, "A10", *seen).memory.fits is fits
    # What ran with less, or had more room, says nothing against it.
    for ran in (_seen("A10", 32), _seen("A100-SXM4-80GB", 128)):
        assert _ask(estimator, "A10", ran, _ran_out("A10")).memory.fits is False


def test_every_way_to_ask_says_the_same(estimator: Estimator) -> None:
    seen, places = (_seen("A10", 8), _ran_out("A10")), ["A10", "A100-SXM4-80GB", "T4"]
    parsed = [parse_placement(place) for place in places]
    table = estimator.matrix([JOB], parsed, {0: seen})
    assert table.fits.tolist() == [[False, True, False]]
    question = CurveQuestion(accelerator="A10", counts=(1, 4))
    assert estimator.curve(JOB, question, seen).to_dict()["fits"] == [False, False]
    other = CurveQuestion(accelerator="A100-SXM4-80GB", counts=(1, 4))
    assert estimator.curve(JOB, other, seen).to_dict()["fits"] == [None, None]
    # Of replicas that share out as many ranks alone are as tight; the curve says why all the same.
    shared_out = replace(question, counts=(2, 4, 8), zero_stage=3)
    for some in (seen[:1], ()):
        curve = estimator.curve(JOB, shared_out, (*some, _ran_out("4xA10 zero=3")))
        assert curve.to_dict()["fits"] == [None, False, None]
        assert list(curve.warnings).count(RAN_OUT_WARNING) == 1
        assert NO_GRAPH_WARNING in curve.warnings
    assert NO_GRAPH_WARNING not in estimator.curve(JOB, question, seen).warnings
    ranking = estimator.rank(JOB, parsed, RankQuestion(), seen)
    assert [one.placement for one in ranking.best] == [1]
    assert sorted(one.placement for one in ranking.left_out) == [0, 2]


def test_the_best_batch_is_smaller_than_what_ran_out(estimator: Estimator) -> None:
    adaptation = {
        "gradient_noise_scale": 1e7, "initial_batch_size": 64, "batch_size_bounds": (64, 4096),
    }  # fmt: skip
    job, place = replace(JOB, adaptation=adaptation), [parse_placement("A10")]
    steps = (_seen("A10", 64), _seen("A10", 128))
    by = RankQuestion(by=Criterion.GOODPUT)
    (before,) = estimator.rank(job, place, by, steps).best
    (after,) = estimator.rank(job, place, by, (*steps, _ran_out("A10", 256))).best
    assert before.batch is not None and after.batch is not None
    assert before.batch.batch_size > 256 > after.batch.batch_size


@pytest.mark.parametrize("seed", range(5))
def test_no_report_makes_anything_likelier_to_fit(estimator: Estimator, seed: int) -> None:
    chance = random.Random(seed)
    places, sizes = ("A10", "2xA10", "T4", "A100-SXM4-80GB"), (16, 32, 64, 128)

    def refused(seen: list[Observation]) -> set[tuple[str, int]]:
        return {
            (place, size)
            for place in places
            for size in sizes
            if _ask(estimator, place, *seen, batch_size=size).memory.fits is False
        }

    seen = [_seen(chance.choice(places), chance.choice(sizes))]
    before = refused(seen)
    for _ in range(3):
        seen.append(_ran_out(chance.choice(places), chance.choice(sizes)))
        after = refused(seen)
        assert before <= after
        before = after
    chance.shuffle(seen)
    assert refused(seen) == before
    assert refused([*seen, _seen(chance.choice(places), chance.choice(sizes))]) <= before

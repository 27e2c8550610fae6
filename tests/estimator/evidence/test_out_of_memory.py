"""A step that ran out of memory tells what does not fit, and nothing of how long anything takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.observed_job import observed_job
from perfmodel.estimator.evidence.step_bounds import DOUBTED_WARNING
from perfmodel.estimator.evidence.tight_cells import RAN_OUT_WARNING
from perfmodel.estimator.placing.memory import JobBounds
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.estimator.tables.estimates import NO_ROOM_WARNING
from perfmodel.estimator.tables.ranking import Criterion, RankQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import RAN_OUT_S, Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.memory.memory import ExcessBounds
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Neighbour, Plan
from perfmodel.types import Basis, Mode

#: Fits the 24 GB of an A10 twice over.
JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2**16)
PLACES = ("A10", "4xA10", "GTX-1080-Ti", "A100-SXM4-80GB", "A10 fraction=0.5")
SIZES = (2**12, 2**15, 2**16, 2**17, 2**18, 2**19)


def _ran_out(placement: str, batch_size: int = JOB.batch_size, **more: Any) -> Observation:
    return _ran(placement, batch_size, step_time_s=RAN_OUT_S, **more)


def _ran(placement: str, batch_size: int = JOB.batch_size, **more: Any) -> Observation:
    facts = {"step_time_s": 0.1 + batch_size * 4e-6, **more}
    return Observation(placement=parse_placement(placement), batch_size=batch_size, **facts)


def _ask(
    estimator: Estimator, placement: str, *seen: Observation, batch_size: int = JOB.batch_size
) -> Estimate:
    job = replace(JOB, batch_size=batch_size)
    return estimator.estimate(job, parse_placement(placement), seen)


def _chances(estimator: Estimator, seen: Sequence[Observation]) -> list[float]:
    """Return how likely each cell runs out of memory."""
    answers = [
        _ask(estimator, place, *seen, batch_size=size).memory for place in PLACES for size in SIZES
    ]
    return [one.oom_probability for one in answers if one.oom_probability is not None]


@pytest.mark.parametrize("script", [None, True])
def test_the_cell_does_not_fit_and_nothing_else_is_said_of_it(
    estimator: Estimator, script: bool | None
) -> None:
    job, place = replace(JOB, script=script), parse_placement("A10")
    before, after = (estimator.estimate(job, place, some) for some in ((), (_ran_out("A10"),)))
    assert (before.memory.fits, after.memory.fits) == (True, False)
    assert after.memory.oom_probability == 1.0
    assert after.warnings == (*before.warnings, RAN_OUT_WARNING, NO_ROOM_WARNING)
    # No residual, no echo, no rung, no efficiency: all but its memory is as it was.
    assert replace(after, memory=before.memory, warnings=before.warnings) == before


def test_every_way_to_ask_says_the_same(estimator: Estimator) -> None:
    seen, places = (_ran_out("A10"),), [parse_placement(one) for one in PLACES]
    jobs = [replace(JOB, batch_size=size) for size in SIZES]
    table = estimator.matrix(jobs, places, dict.fromkeys(range(len(jobs)), seen))
    alone = [[estimator.estimate(job, one, seen).memory.fits for one in places] for job in jobs]
    assert table.fits.tolist() == alone
    # It is as likely as not that 0.674 deviations less fit, and larger batches do nowhere fit
    # where there is no more room.
    assert [row[0] for row in alone] == [True, True, False, False, False, False]
    assert RAN_OUT_WARNING in table.warnings
    question = CurveQuestion(accelerator="A10", counts=(1, 2, 4))
    curve = estimator.curve(JOB, question, seen)
    assert curve.fits.tolist() == [False, False, False]
    assert RAN_OUT_WARNING in curve.warnings
    # Of what may need less it is not said.
    fewer = replace(JOB, batch_size=JOB.batch_size - 1)
    other = estimator.curve(fewer, question, seen)
    assert (other.fits.tolist(), RAN_OUT_WARNING in other.warnings) == ([False] * 3, False)


def test_a_cell_is_the_same_however_it_is_written(estimator: Estimator) -> None:
    seen, plan = _ran_out("4xA10"), Plan(data=4)
    for asked in (replace(parse_placement("4xA10"), plan=plan), parse_placement("4xNVIDIA A10")):
        assert RAN_OUT_WARNING in estimator.estimate(JOB, asked, (seen,)).warnings
        turned = replace(seen, placement=asked)
        assert RAN_OUT_WARNING in _ask(estimator, "4xA10", turned).warnings


def test_what_ran_wins(estimator: Estimator) -> None:
    both = (_ran_out("A10"), _ran("A10"))
    for seen in (both, both[::-1]):
        answer = _ask(estimator, "A10", *seen)
        assert (answer.memory.fits, answer.basis) == (True, Basis.MEASURED)
        assert answer == _ask(estimator, "A10", _ran("A10"))
    # What ran with more leaves a smaller one refused itself, and nothing else.
    larger = _ran("A10", 2**17)
    with_both = _chances(estimator, (larger, _ran_out("A10")))
    alone = _chances(estimator, (larger,))
    differs = [at for at, (a, b) in enumerate(zip(with_both, alone, strict=True)) if a != b]
    assert differs == [SIZES.index(JOB.batch_size)]
    assert (alone[differs[0]], with_both[differs[0]]) == (0.0, 1.0)
    # What ran with more elsewhere says that the job is counted too high, not that this fits.
    elsewhere = (_ran("A100-SXM4-80GB", 2**20), _ran_out("A10"))
    for size, fits in ((2**15, True), (2**16, False), (2**17, False)):
        answer = _ask(estimator, "A10", *elsewhere, batch_size=size)
        assert answer.memory.fits is fits
        assert _ask(estimator, "A10", elsewhere[0], batch_size=size).memory.fits


def test_what_ran_out_beside_others_says_nothing_elsewhere(estimator: Estimator) -> None:
    beside = replace(parse_placement("A10"), shared_with=(Neighbour(job_type="nobody-knows"),))
    seen = replace(_ran_out("A10"), placement=beside)
    assert _chances(estimator, [seen]) == _chances(estimator, [])
    before, after = (estimator.estimate(JOB, beside, some) for some in ((), (seen,)))
    assert (before.memory.fits, after.memory.fits) == (True, False)
    assert not estimator.matrix([JOB], [beside], {0: [seen]}).fits.any()


def test_neighbours_are_the_same_in_any_order(estimator: Estimator) -> None:
    one, other = Neighbour(job_type="nobody-knows"), Neighbour(job_type="nor this one")
    beside = [
        replace(parse_placement("A10"), shared_with=some) for some in ((one, other), (other, one))
    ]
    seen = replace(_ran_out("A10"), placement=beside[0])
    fits = [estimator.estimate(JOB, place, (seen,)).memory.fits for place in beside]
    assert fits == [False, False]


def _bounds(estimator: Estimator, *seen: Observation) -> JobBounds:
    found = observed_job(estimator.core, estimator.core.prepare(JOB), seen)
    assert found is not None
    return found.bounds


def test_a_step_ran_out_on_one_accelerator_at_least(estimator: Estimator) -> None:
    # Of 11 and 80 GB it is not known which were too few: those that were tighter, at least.
    mixed = _bounds(estimator, _ran_out("GTX-1080-Ti+A100-SXM4-80GB", 2**17))
    alike = _bounds(estimator, _ran_out("2xGTX-1080-Ti", 2**17))
    assert mixed.elsewhere == alike.elsewhere
    assert mixed.elsewhere.ran_out > 0
    assert mixed.there == {}
    assert set(alike.there) == {"GTX-1080Ti"}


def test_how_far_a_job_is_counted_too_low_is_said_of_its_own_accelerators(
    estimator: Estimator,
) -> None:
    seen, size = _ran_out("A10", 2**15), 2**15 - 2**9
    bounds = _bounds(estimator, seen)
    assert bounds.elsewhere == ExcessBounds(ran_out=0.0)
    assert bounds.there["A10"].ran_out < -1
    before, there, elsewhere = (
        _ask(estimator, place, *some, batch_size=size).memory
        for place, some in (("A10", ()), ("A10", (seen,)), ("RTX-3090", (seen,)))
    )
    assert (before.fits, there.fits, elsewhere.fits) == (True, False, True)
    # Phi(x) of a law that is cut at 0 is twice what it was.
    assert elsewhere.oom_probability == pytest.approx(2 * (before.oom_probability or 0.0))


def test_what_another_job_ran_out_of_says_nothing(estimator: Estimator) -> None:
    other = replace(_ran_out("A10"), job=replace(JOB, model="zoo/one"))
    assert _ask(estimator, "A10", other) == _ask(estimator, "A10")
    table = estimator.matrix(
        [JOB, replace(JOB, model="zoo/one")], [parse_placement("A10")], {1: [_ran_out("A10")]}
    )
    assert table.fits[:, 0].tolist() == [True, False]


def test_what_is_counted_to_need_far_less_refuses_itself_alone(estimator: Estimator) -> None:
    place, size = "H100-SXM5-80GB", 2**12
    seen = _ran_out(place, size)
    before, after = (_ask(estimator, place, *some, batch_size=size) for some in ((), (seen,)))
    assert (before.memory.fits, after.memory.fits) == (True, False)
    said = DOUBTED_WARNING.format(1)
    assert {RAN_OUT_WARNING, said} <= set(after.warnings)
    # Nothing else is refused, and every way to ask says that the report was not carried over.
    jobs = [replace(JOB, batch_size=one) for one in (size, 2 * size)]
    places = [parse_placement(one) for one in (place, "2xH100-SXM5-80GB", "A10", "T4")]
    table = estimator.matrix(jobs, places, {0: (seen,)})
    assert table.fits.tolist() == [[False, True, True, True], [True] * 4]
    assert said in table.warnings
    question = CurveQuestion(accelerator=place, counts=(1, 2, 4))
    curve = estimator.curve(jobs[0], question, (seen,))
    assert curve.fits.tolist() == [False, True, True]
    assert said in curve.warnings
    (ranked,) = estimator.rank(jobs[1], places[2:3], RankQuestion(), (seen,)).best
    assert said in ranked.estimate.warnings
    for asked in places[2:]:
        plain, told = (estimator.estimate(jobs[0], asked, some) for some in ((), (seen,)))
        assert replace(told, warnings=plain.warnings) == plain
        assert told.warnings == (*plain.warnings, said)
    # Beside others it may be they that hold the memory.
    beside = replace(parse_placement(place), shared_with=(Neighbour(job_type="nobody-knows"),))
    answer = estimator.estimate(jobs[0], beside, (replace(seen, placement=beside),))
    assert said not in answer.warnings


def test_who_asks_stands_over_what_is_stored_of_a_cell(estimator: Estimator) -> None:
    ran, out = _ran("A10"), _ran_out("A10")
    stored_ran, stored_out = (replace(one, reporter="somebody") for one in (ran, out))
    measured = _ask(estimator, "A10", stored_ran)
    for seen in ((stored_ran, out), (out, stored_ran)):
        answer = _ask(estimator, "A10", *seen)
        assert (answer.memory.fits, answer.basis) == (False, Basis.MEASURED)
        assert answer.step_time_s == measured.step_time_s
        # What is as tight is refused, too, as if nobody else had said anything.
        assert _ask(estimator, "A10", *seen, batch_size=2**17).memory.fits is False
    for seen in ((ran, stored_out), (stored_out, ran)):
        assert _ask(estimator, "A10", *seen) == _ask(estimator, "A10", ran)
    # Of those that are stored what ran wins.
    assert _ask(estimator, "A10", stored_ran, stored_out).memory.fits


def test_another_job_that_ran_out_is_one(estimator: Estimator) -> None:
    nobody = replace(_ran_out("A10"), job=replace(JOB, model="zoo/nobody-knows"))
    with pytest.raises(InvalidInputError) as refused:
        _ask(estimator, "A10", _ran_out("A10"), nobody)
    assert refused.value.pointer.startswith("/observations/1")


@pytest.mark.parametrize("seed", range(8))
def test_no_report_makes_anything_likelier_to_fit(estimator: Estimator, seed: int) -> None:
    chance = random.Random(seed)
    seen: list[Observation] = []
    steps = [_ran(chance.choice(PLACES), chance.choice(SIZES)) for _ in range(chance.randrange(3))]
    before = _chances(estimator, steps)
    for _ in range(3):
        seen.append(_ran_out(chance.choice(PLACES), chance.choice(SIZES)))
        after = _chances(estimator, (*steps, *seen))
        assert all(b <= a for b, a in zip(before, after, strict=True))
        before = after
    mixed = [*steps, *seen, seen[0]]
    chance.shuffle(mixed)
    assert _chances(estimator, mixed) == before
    # What ran never makes anything likelier to run out.
    also = _chances(estimator, (*mixed, _ran(chance.choice(PLACES), chance.choice(SIZES))))
    assert all(a <= b for a, b in zip(also, before, strict=True))


@pytest.mark.parametrize("kind", ["model", "type"])
def test_the_best_batch_is_none_that_ran_out(estimator: Estimator, kind: str) -> None:
    adaptation = {
        "gradient_noise_scale": 1e7, "initial_batch_size": 64, "batch_size_bounds": (64, 2**24),
    }  # fmt: skip
    job = Job(mode=Mode.TRAINING, batch_size=64, adaptation=adaptation, job_type="click-rates")
    if kind == "model":
        job = replace(JOB, batch_size=64, adaptation=adaptation)
    by, places = RankQuestion(by=Criterion.GOODPUT), [parse_placement("4xA10")]
    # Refused with as many micro-batches, and, once a larger batch ran, as that very cell.
    seen = [_ran("4xA10", 2**6, step_time_s=0.5), _ran("4xA10", 2**7, step_time_s=0.6)]
    for more in ((), (_ran("4xA10", 2**20, step_time_s=1e3),)):
        for _ in range(2):
            batch = estimator.rank(job, places, by, (*seen, *more)).best[0].batch
            assert batch is not None
            size, steps = batch.batch_size, batch.accumulation_steps
            asked = replace(job, batch_size=size, accumulation_steps=steps)
            answer = estimator.estimate(asked, places[0], (*seen, *more))
            assert RAN_OUT_WARNING not in answer.warnings
            seen.append(_ran_out("4xA10", size, accumulation_steps=steps))


def test_times_are_those_of_steps_alone(estimator: Estimator) -> None:
    steps = [_ran("A10", 2**12), _ran("2xA10", 2**12, sync_time_s=0.01)]
    for place in PLACES:
        plain = _ask(estimator, place, *steps)
        more = _ask(estimator, place, *steps, _ran_out("A10"), _ran_out("2xA10", 2**15))
        assert replace(more, memory=plain.memory, warnings=plain.warnings) == plain

"""Observed steps of a job move its answers at once, and only its own."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.step_bounds import expected_bounds
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Neighbour
from perfmodel.types import Basis, Mode

JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)


def _seen(placement: str, step_time_s: float, **more: Any) -> Observation:
    facts = {"batch_size": JOB.batch_size, "step_time_s": step_time_s, **more}
    return Observation(placement=parse_placement(placement), **facts)


def _ask(estimator: Estimator, placement: str, *seen: Observation) -> Estimate:
    return estimator.estimate(JOB, parse_placement(placement), seen)


def test_an_observed_cell_is_answered_close_to_its_measurement(estimator: Estimator) -> None:
    # 2 ms are predicted; it took 3.
    before, after = _ask(estimator, "A10"), _ask(estimator, "A10", _seen("A10", 3e-3))
    assert before.step_time_s == pytest.approx(2e-3)
    assert after.step_time_s == pytest.approx(3e-3, rel=0.1)
    assert after.basis is Basis.MEASURED
    width = [a.throughput.high / a.throughput.low for a in (before, after)]
    assert width[1] < width[0]


def test_other_placements_of_the_job_follow(estimator: Estimator) -> None:
    before, after = _ask(estimator, "4xA10"), _ask(estimator, "4xA10", _seen("A10", 3e-3))
    # It computes 1 ms longer, on any number of them; nothing was seen of its links.
    assert after.breakdown.compute_s - before.breakdown.compute_s == pytest.approx(1e-3, rel=0.1)
    assert after.sync_time_s == pytest.approx(before.sync_time_s)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A10", "A10 fraction=0.75"),
        ("A10 fraction=0.75", "A10"),
        ("EPYC-7742", "EPYC-7742 cores=48"),
        ("EPYC-7742 cores=48", "EPYC-7742"),
        ("A100-SXM4-80GB", "A100-SXM4-80GB/7g.80gb"),
        ("A100-SXM4-80GB/7g.80gb", "A100-SXM4-80GB/4g.40gb"),
    ],
)
def test_parts_of_an_accelerator_follow_it_and_it_them(
    estimator: Estimator, one: str, other: str
) -> None:
    alone = [_ask(estimator, place).step_time_s for place in (one, other)]
    seen = _seen(one, 4 * alone[0])
    here, there = (_ask(estimator, place, seen) for place in (one, other))
    # What makes a step four times as long on the one is there on the other.
    assert (here.basis, there.basis) == (Basis.MEASURED, Basis.CALIBRATED)
    assert here.step_time_s == pytest.approx(4 * alone[0], rel=0.05)
    assert there.step_time_s == pytest.approx(4 * alone[1], rel=0.1)


def test_steps_on_several_tell_communication(estimator: Estimator) -> None:
    plain = _ask(estimator, "2xA10")
    seen = (_seen("A10", 2e-3), _seen("2xA10", plain.step_time_s / 2))
    assert _ask(estimator, "2xA10", *seen).step_time_s == pytest.approx(
        plain.step_time_s / 2, rel=0.1
    )
    four = [_ask(estimator, "4xA10", *some) for some in ((), seen)]
    assert four[1].sync_time_s < 0.8 * four[0].sync_time_s
    assert four[1].breakdown.compute_s == pytest.approx(2e-3, rel=0.2)


def test_observed_cells_are_surer(estimator: Estimator) -> None:
    seen = (_seen("A10", 3e-3), _seen("2xA10", 3e-2))
    for placement in ("A10", "2xA10"):
        widths = [
            answer.throughput.high / answer.throughput.low
            for answer in (_ask(estimator, placement), _ask(estimator, placement, *seen))
        ]
        assert widths[1] <= widths[0] * (1 + 1e-9)


def test_an_answer_says_how_near_its_evidence_is(estimator: Estimator) -> None:
    seen = (_seen("A10", 3e-3), _seen("2xA10", 3e-2))
    near = [_ask(estimator, place, *seen) for place in ("2xA10", "4xA10", "8xA100-SXM4-80GB")]
    assert [one.basis for one in near] == [Basis.MEASURED, Basis.CALIBRATED, Basis.TRANSFERRED]
    widths = [one.throughput.high / one.throughput.low for one in near]
    assert widths == sorted(widths)


def test_a_step_that_was_seen_fits(estimator: Estimator) -> None:
    large = replace(JOB, batch_size=2**22)
    before = estimator.estimate(large, parse_placement("A10"))
    seen = _seen("A10", 2 * before.step_time_s, batch_size=large.batch_size)
    after = estimator.estimate(large, parse_placement("A10"), (seen,))
    assert (before.memory.fits, after.memory.fits) == (False, True)
    assert after.memory.peak_bytes == after.memory.capacity_bytes
    matrix = estimator.matrix([large], [parse_placement("A10")], {0: (seen,)})
    assert matrix.fits.all()


def test_what_ran_beyond_its_room_leaves_nothing_for_a_neighbour(estimator: Estimator) -> None:
    large = replace(JOB, batch_size=2**19)
    took_s = estimator.estimate(large, parse_placement("A10")).step_time_s
    seen = _seen("A10", took_s, batch_size=large.batch_size)
    for neighbour in (Neighbour(job=JOB), Neighbour(job_type="nobody-knows")):
        beside = replace(parse_placement("A10"), shared_with=(neighbour,))
        assert estimator.estimate(JOB, beside, (seen,)).memory.fits
        assert estimator.estimate(large, beside, (seen,)).memory.fits is False
        assert not estimator.matrix([large], [beside], {0: (seen,)}).fits.any()


def test_what_ran_fits_wherever_it_needs_no_more(estimator: Estimator) -> None:
    large = replace(JOB, batch_size=2**19)
    places = [parse_placement(text) for text in ("A10", "4xA10", "A100-SXM4-80GB", "GTX-1080-Ti")]
    took_s = estimator.estimate(large, places[0]).step_time_s
    seen = _seen("A10", took_s, batch_size=large.batch_size)
    sizes = [2**18, 2**19 - 1, 2**19 + 2**12, 2**22]
    jobs = [replace(JOB, batch_size=size) for size in sizes]
    assert not estimator.matrix(jobs, places).fits[:, 0].any()
    after = estimator.matrix(jobs, places, dict.fromkeys(range(len(jobs)), (seen,)))
    # Half of what ran in 24 GB fits 11 as likely as not, and one of four holds twice as much.
    assert after.fits.tolist() == [
        [True, True, True, True],
        [True, False, True, False],
        [True, False, True, False],
        [False, False, False, False],
    ]
    question = CurveQuestion(accelerator="A10", counts=(1, 2, 4))
    curves = [estimator.curve(jobs[1], question, of).fits.tolist() for of in ((), (seen,))]
    assert curves == [[False, False, False], [True, False, False]]
    for row, job in enumerate(jobs):
        alone = [estimator.estimate(job, place, (seen,)).memory.fits for place in places]
        assert alone == after.fits[row].tolist()


def test_answers_without_observations_stay_as_they_are(estimator: Estimator) -> None:
    before = _ask(estimator, "4xA10")
    _ask(estimator, "4xA10", _seen("A10", 3e-3))
    assert _ask(estimator, "4xA10") == before


def test_the_order_of_observations_does_not_matter(estimator: Estimator) -> None:
    seen = [
        _seen("A10", 3e-3),
        _seen("2xA10", 1.4e-2),
        _seen("8xA10", 2.4e-2),
        _seen("A10", 2.8e-3),
    ]
    first = _ask(estimator, "4xA10", *seen)
    random.Random(0).shuffle(seen)
    assert _ask(estimator, "4xA10", *seen).step_time_s == pytest.approx(first.step_time_s)


def test_a_curve_moves_with_them(estimator: Estimator) -> None:
    question = CurveQuestion(accelerator="A10", counts=(1, 2, 4, 8))
    plain = estimator.curve(JOB, question)
    moved = estimator.curve(JOB, question, (_seen("A10", 3e-3),))
    assert moved.step_time_s[0] == pytest.approx(3e-3, rel=0.1)
    assert (moved.step_time_s > plain.step_time_s).all()
    single = _ask(estimator, "4xA10", _seen("A10", 3e-3))
    assert moved.step_time_s[2] == pytest.approx(single.step_time_s)


def test_a_step_beyond_the_peak_is_a_mistake(estimator: Estimator) -> None:
    with pytest.raises(InvalidInputError, match="Is it in seconds") as refused:
        _ask(estimator, "A10", _seen("A10", 1e-9))
    assert refused.value.pointer == "/observations/0/step_time_s"


def test_a_bad_placement_of_an_observation_is_pointed_at(estimator: Estimator) -> None:
    with pytest.raises(InvalidInputError) as refused:
        _ask(estimator, "A10", _seen("A10", 3e-3), _seen("B10000", 3e-3))
    assert str(refused.value.pointer).startswith("/observations/1/placement")


def test_an_job_type_job_is_answered_from_its_cells(estimator: Estimator) -> None:
    job = Job(job_type="mystery", mode=Mode.TRAINING, batch_size=32)
    seen = tuple(
        Observation(placement=parse_placement(p), batch_size=32, step_time_s=t)
        for p, t in (("V100-SXM2-16GB", 0.2), ("2xV100-SXM2-16GB", 0.22))
    )
    own = estimator.estimate(job, parse_placement("V100-SXM2-16GB"), seen)
    assert own.step_time_s == pytest.approx(0.2, rel=0.1)
    four = estimator.estimate(job, parse_placement("4xV100-SXM2-16GB"), seen)
    assert 0.18 < four.step_time_s < 0.4
    assert four.throughput.samples_per_second == pytest.approx(4 * 32 / four.step_time_s)
    assert four.memory.fits is None
    assert four.memory.peak_bytes is None


def test_an_unknown_job_type_says_so(estimator: Estimator) -> None:
    job = Job(job_type="never heard of", mode=Mode.TRAINING, batch_size=32)
    answer = estimator.estimate(job, parse_placement("T4"))
    assert answer.basis is Basis.DEFAULT
    assert answer.out_of_distribution
    assert any("ever measured" in text for text in answer.warnings)
    assert answer.throughput.high > 50 * answer.throughput.low
    with pytest.raises(InvalidInputError, match="no graph"):
        estimator.core.prepare(job)


def test_what_a_script_takes_beyond_its_step_is_stated(estimator: Estimator) -> None:
    before = _ask(estimator, "A10")
    after = _ask(estimator, "A10", _seen("A10", 2 * before.step_time_s))
    assert before.script_efficiency is None
    assert after.script_efficiency == pytest.approx(before.step_time_s / after.step_time_s)
    assert after.script_efficiency == pytest.approx(0.5, rel=0.05)
    assert after.to_dict()["script_efficiency"] == after.script_efficiency


def test_no_part_of_an_observed_step_is_longer_than_it(estimator: Estimator) -> None:
    slow = "2x(4xA10)@eth-1g"
    before = _ask(estimator, slow)
    # The exchange alone takes longer than the step that was measured.
    seen = _seen(slow, 0.5 * before.sync_time_s)
    after = _ask(estimator, slow, seen)
    assert after.step_time_s == pytest.approx(seen.step_time_s, rel=0.1)
    exposed_s = after.breakdown.exposed_communication_s
    assert exposed_s <= after.sync_time_s <= after.step_time_s
    # What computing hides lies within both.
    assert after.sync_time_s - exposed_s <= after.compute_time_s
    table = estimator.matrix([JOB], [parse_placement(slow)], {0: (seen,)})
    assert table.sync_time_s[0, 0] == pytest.approx(after.sync_time_s)


@pytest.mark.parametrize("script", [None, True])
def test_milliseconds_for_seconds_are_refused(estimator: Estimator, script: bool | None) -> None:
    job = replace(JOB, script=script)
    seen = _seen("A10", 1e3 * _ask(estimator, "A10").step_time_s)
    with pytest.raises(InvalidInputError, match="more than 200 times what is predicted") as refused:
        estimator.estimate(job, parse_placement("A10"), (seen,))
    assert refused.value.pointer == "/observations/0/step_time_s"
    # What is stored was judged when it came in; an administrator may have known better.
    kept = estimator.estimate(job, parse_placement("A10"), (replace(seen, reporter="somebody"),))
    assert kept.basis is Basis.MEASURED


def test_a_step_is_expected_within_two_hundred_times_either_way() -> None:
    bounds = expected_bounds(0.2, 0.4, "what is predicted")
    within = [bounds.doubt_of(_seen("A10", time_s)) for time_s in (0.2 / 199, 0.4 * 199)]
    assert within == [None, None]
    short, long = (str(bounds.doubt_of(_seen("A10", time_s))) for time_s in (0.2 / 201, 0.4 * 201))
    assert "less than a 200th of what is predicted, 0.2 s" in short
    assert "more than 200 times what is predicted, 0.4 s" in long


def test_what_is_no_synchronisation_takes_its_arithmetic_as_well(estimator: Estimator) -> None:
    # Whoever logs what runs beside the backward pass leaves no time to compute in.
    whole_s = _ask(estimator, "2xA10").step_time_s
    seen = replace(_seen("2xA10", whole_s), sync_time_s=0.999 * whole_s)
    with pytest.raises(InvalidInputError, match="step_time_s less sync_time_s is .* arithmetic"):
        estimator.estimate(JOB, parse_placement("A10"), (seen,))
    possible = replace(seen, sync_time_s=0.4 * whole_s)
    assert estimator.estimate(JOB, parse_placement("2xA10"), (possible,)).basis is Basis.MEASURED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("8xT4[pcie3]", "8xT4[pcie3-x4]"),
        ("2x(4xA10)@100gbit,20us", "2x(4xA10)@100gbit,500us"),
        ("2x(4xA10)@ib-100g", "2x(4xA10)@ib-100g/4"),
        ("(4+3+1)xA10@eth-10g", "(4+2+2)xA10@eth-10g"),
        ("8xA10 zero=3 replicate=4", "8xA10 zero=3 replicate=2"),
        ("8xA10 zero=3 offload=optimizer+parameters", "8xA10 zero=3 offload=optimizer"),
    ],
)
def test_placements_that_differ_are_cells_of_their_own(
    estimator: Estimator, one: str, other: str
) -> None:
    first, second = _seen(one, 0.03), _seen(other, 0.05)
    assert _ask(estimator, one, first).basis is Basis.MEASURED
    assert _ask(estimator, other, first).basis is Basis.CALIBRATED
    for seen in ((first, second), (second, first)):
        for place, step_s in ((one, 0.03), (other, 0.05)):
            assert _ask(estimator, place, *seen).step_time_s == pytest.approx(step_s, rel=0.05)


def test_cells_of_curves_and_matrices_are_those_of_placements(estimator: Estimator) -> None:
    places = ("4xA10", "(4+4)xA10@ib-100g", "(4+4+2)xA10@ib-100g")
    seen = [_seen(place, 0.03 + 0.01 * at) for at, place in enumerate(places)]
    network = parse_placement(places[1]).network
    asked = CurveQuestion(accelerator="A10", counts=(4, 8, 10), per_host=4, network=network)
    drawn = estimator.curve(JOB, asked, seen)
    table = estimator.matrix([JOB], [parse_placement(place) for place in places], {0: seen})
    expected = [_ask(estimator, place, *seen).step_time_s for place in places]
    assert expected == pytest.approx([0.03, 0.04, 0.05], rel=0.05)
    assert drawn.step_time_s.tolist() == pytest.approx(expected)
    assert table.step_time_s[0].tolist() == pytest.approx(expected)

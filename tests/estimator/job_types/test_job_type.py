"""Jobs that are known by their type alone: what steps of them say about all others."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfmodel.errors import InvalidInputError
from perfmodel.estimator import Estimator
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.job_types.job_type import MOST_OWN, ObservedJobType
from perfmodel.estimator.job_types.job_type_answers import answer_of_type
from perfmodel.estimator.tables.curve import CurveQuestion
from perfmodel.estimator.tables.ranking import Criterion, RankQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation, parse_observations
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Basis, Mode

JOB = Job(job_type="mystery", mode=Mode.TRAINING, batch_size=32)
HOST = "4xV100-SXM2-16GB"
#: Fifty milliseconds and five for a sample; four GPUs wait 30 ms, two hosts 150 ms.
STEPS = (
    ("V100-SXM2-16GB", 32, 0.21, None),
    ("V100-SXM2-16GB", 64, 0.37, None),
    (HOST, 32, 0.24, 0.03),
    (f"2x({HOST})@eth-10g", 32, 0.36, 0.15),
)


def seen(
    place: Any, batch: int, step_s: float, sync_s: float | None, job: Job | None = None
) -> Observation:
    return Observation(
        placement=parse_placement(place),
        batch_size=batch,
        step_time_s=step_s,
        sync_time_s=sync_s,
        job=job,
    )


OBSERVED = tuple(seen(*step) for step in STEPS)


@pytest.fixture
def ask(estimator: Estimator):
    def answer(
        place: Any, *, job: Job = JOB, observed: Sequence[Observation] = OBSERVED
    ) -> Estimate:
        return estimator.estimate(job, parse_placement(place), observed)

    return answer


def test_each_of_very_many_cells_is_answered_near_its_measurement(ask) -> None:
    batches = range(8, 8 + 2 * MOST_OWN)
    many = tuple(seen("V100-SXM2-16GB", batch, 0.05 + 0.005 * batch, None) for batch in batches)
    for batch in batches[:: MOST_OWN // 5]:
        answer = ask("V100-SXM2-16GB", job=replace(JOB, batch_size=batch), observed=many)
        assert answer.basis is Basis.MEASURED
        assert answer.step_time_s == pytest.approx(0.05 + 0.005 * batch, rel=0.05)


def test_observed_cells_are_answered_near_their_measurements(ask) -> None:
    for place, batch, step_s, _ in STEPS:
        answer = ask(place, job=replace(JOB, batch_size=batch))
        assert answer.step_time_s == pytest.approx(step_s, rel=0.06)
        assert answer.basis is Basis.MEASURED


def test_what_was_logged_as_synchronisation_is_told_apart(ask) -> None:
    for place, _, step_s, sync_s in STEPS[2:]:
        answer = ask(place)
        parts = answer.breakdown
        assert parts.exposed_communication_s == pytest.approx(sync_s, rel=0.25)
        assert parts.compute_s + parts.overhead_s == pytest.approx(step_s - sync_s, rel=0.1)
        assert answer.sync_time_s >= parts.exposed_communication_s
        total = parts.compute_s + parts.exposed_communication_s + parts.overhead_s
        assert total == pytest.approx(answer.step_time_s)
        assert answer.compute_time_s == parts.compute_s


def test_one_accelerator_communicates_nothing(ask) -> None:
    answer = ask("V100-SXM2-16GB")
    assert answer.sync_time_s == 0
    assert answer.compute_time_s == pytest.approx(answer.step_time_s)


@pytest.mark.parametrize("hosts", [2, 4, 16])
def test_more_bandwidth_never_hurts(ask, hosts: int) -> None:
    rates = [
        ask(f"{hosts}x({HOST})@{network}").throughput.samples_per_second
        for network in ("eth-10g", "eth-25g", "eth-100g", "ib-400g")
    ]
    assert all(slow <= fast * (1 + 1e-9) for slow, fast in zip(rates, rates[1:], strict=False))


def test_throughput_of_each_accelerator_never_rises_with_their_number(ask) -> None:
    counts = (1, 2, 4, 8)
    each = [ask(f"{n}xV100-SXM2-16GB").throughput.samples_per_second / n for n in counts]
    assert all(few >= many * (1 - 1e-9) for few, many in zip(each, each[1:], strict=False))


def test_the_order_of_observations_does_not_matter(ask) -> None:
    backwards = ask(f"3x({HOST})@eth-10g", observed=OBSERVED[::-1])
    assert backwards.step_time_s == ask(f"3x({HOST})@eth-10g").step_time_s


def test_what_whoever_asks_measured_stands_over_what_is_stored_of_it(ask) -> None:
    stored = [replace(one, reporter="somebody") for one in OBSERVED]
    slower = [replace(one, step_time_s=3 * one.step_time_s, sync_time_s=None) for one in stored]
    for place in (HOST, "A100-SXM4-40GB", f"4x({HOST})@eth-10g"):
        assert ask(place, observed=[*stored, *OBSERVED]) == ask(place)
        assert ask(place, observed=[*OBSERVED, *slower]) == ask(place)


def test_a_device_without_steps_is_less_sure(ask) -> None:
    here, there = ask(HOST), ask("4xT4")
    assert there.basis is Basis.TRANSFERRED
    assert there.step_time_s > here.step_time_s
    width = [a.throughput.high / a.throughput.low for a in (here, there)]
    assert width[1] > 1.5 * width[0]


def test_the_batch_may_stand_in_the_name(ask) -> None:
    named = Job(job_type="mystery (batch size 64)", mode=Mode.TRAINING, batch_size=1)
    answer = ask("V100-SXM2-16GB", job=named)
    assert answer.step_time_s == pytest.approx(0.37, rel=0.06)
    assert answer.throughput.samples_per_second == pytest.approx(64 / answer.step_time_s)


def test_an_observation_has_the_batch_that_stands_in_the_name(ask) -> None:
    named = Job(job_type="mystery (batch size 64)", mode=Mode.TRAINING, batch_size=512)
    stated = {"placement": HOST, "step_time_s": 0.2}
    [told] = parse_observations([stated], named)
    assert told.batch_size == 64
    answer = ask(HOST, job=named, observed=[told])
    assert answer.basis is Basis.MEASURED
    assert answer.step_time_s == pytest.approx(0.2, rel=0.05)


def test_micro_batches_add_up(ask) -> None:
    one, two = ask(HOST), ask(HOST, job=replace(JOB, accumulation_steps=2))
    # Twice the work, the gradients once.
    assert two.step_time_s == pytest.approx(2 * 0.21 + 0.03, rel=0.1)
    rate = 2 * 32 * 4 / two.step_time_s
    assert two.throughput.samples_per_second == pytest.approx(rate)
    assert two.throughput.samples_per_second > one.throughput.samples_per_second


def test_replicas_of_inference_do_not_wait(ask) -> None:
    serving = replace(JOB, mode=Mode.INFERENCE)
    observed = [seen("V100-SXM2-16GB", 32, 0.05, None)]
    one, four = (ask(place, job=serving, observed=observed) for place in ("V100-SXM2-16GB", HOST))
    assert four.sync_time_s == 0
    assert four.throughput.samples_per_second == pytest.approx(
        4 * one.throughput.samples_per_second, rel=1e-3
    )


def test_what_serving_reached_on_several_is_answered_there(ask) -> None:
    serving = replace(JOB, mode=Mode.INFERENCE)
    observed = [seen("V100-SXM2-16GB", 32, 0.1, None), seen(HOST, 32, 0.15, None)]
    places = ("V100-SXM2-16GB", HOST, "8xV100-SXM2-16GB")
    one, four, eight = (ask(place, job=serving, observed=observed) for place in places)
    assert one.step_time_s == pytest.approx(0.1, rel=0.05)
    assert four.step_time_s == pytest.approx(0.15, rel=0.05)
    assert [one.basis, four.basis] == [Basis.MEASURED] * 2
    assert eight.basis is not Basis.MEASURED


def test_training_is_not_what_serving_of_the_same_name_takes(ask) -> None:
    serving = replace(JOB, mode=Mode.INFERENCE)
    served = [
        seen("V100-SXM2-16GB", 32, 0.002, None, serving),
        seen("T4", 32, 0.004, None, serving),
    ]
    for place in (HOST, "4xT4"):
        alone, beside = ask(place), ask(place, observed=[*OBSERVED, *served])
        assert beside.step_time_s == pytest.approx(alone.step_time_s, rel=0.5)
        assert beside.basis is alone.basis


def test_what_no_step_tells_is_completed_from_cells(ask) -> None:
    beside = ask({"nodes": [{"accelerator": "V100-SXM2-16GB"}], "shared_with": ["LM"]})
    assert beside.step_time_s > ask("V100-SXM2-16GB").step_time_s
    unknown = ask("2xT4", job=replace(JOB, job_type="never heard of"), observed=())
    assert unknown.basis is Basis.DEFAULT
    assert unknown.compute_time_s + unknown.sync_time_s == pytest.approx(unknown.step_time_s)
    assert unknown.sync_time_s > 0


def test_half_of_an_accelerator_takes_longer_and_a_limit_of_power_too(ask) -> None:
    whole = ask("V100-SXM2-16GB")
    half, limited = (
        ask({"nodes": [{"accelerator": "V100-SXM2-16GB"}], **limit})
        for limit in ({"fraction": 0.5}, {"power_limit_w": 150})
    )
    for answer in (half, limited):
        assert whole.step_time_s < answer.step_time_s < 2.5 * whole.step_time_s
        assert answer.basis is Basis.ANALYTICAL
    slices = [ask(f"A100-SXM4-40GB{s}").step_time_s for s in ("/1g.5gb", "/3g.20gb", "")]
    assert slices[0] > slices[1] >= slices[2]


def test_steps_under_the_same_limit_know_more_of_it(ask) -> None:
    half = {"nodes": [{"accelerator": "V100-SXM2-16GB"}], "fraction": 0.5}
    answer = ask(half, observed=[*OBSERVED, seen(half, 32, 0.5, None)])
    assert answer.step_time_s == pytest.approx(0.5, rel=0.15)
    assert answer.basis is Basis.MEASURED


def test_a_plan_under_which_nothing_was_seen_is_said_to_be_unknown(ask) -> None:
    nodes = [{"accelerator": "V100-SXM2-16GB", "count": 4}]
    split = ask({"nodes": nodes, "plan": {"data": 2, "tensor": 2}})
    assert any("its plan" in text for text in split.warnings)
    shared = ask({"nodes": nodes, "plan": {"data": 4, "zero_stage": 3}})
    assert shared.basis is Basis.CALIBRATED
    assert shared.sync_time_s > ask(HOST).sync_time_s


def test_a_store_makes_a_step_wait_where_its_samples_are_stated(ask) -> None:
    fed = {"nodes": [{"accelerator": "V100-SXM2-16GB"}], "storage_bytes_per_s": 1e7}
    unsaid = ask(fed)
    assert any("state its input" in text for text in unsaid.warnings)
    # 32 samples of 1 MB at 10 MB/s take 3.2 s.
    stated = replace(JOB, input={"stored_bytes": 1e6, "cpu_s": 0.0})
    answer = ask(fed, job=stated)
    assert answer.step_time_s == pytest.approx(3.2, rel=0.05)
    assert answer.breakdown.input_stall_s == pytest.approx(3.2 - unsaid.step_time_s, rel=0.05)


def test_a_curve_says_what_single_answers_say(estimator: Estimator, ask) -> None:
    question = CurveQuestion(accelerator="V100-SXM2-16GB", counts=(1, 2, 4, 8, 16, 64), per_host=4)
    curve = estimator.curve(JOB, question, OBSERVED)
    for at, count in enumerate(question.counts):
        place = f"{count // 4}x({HOST})" if count > 4 else f"{count}xV100-SXM2-16GB"
        answer = ask(place)
        assert curve.samples_per_second[at] == pytest.approx(answer.throughput.samples_per_second)
        assert curve.low[at] == pytest.approx(answer.throughput.low)
        assert curve.basis[at] is answer.basis
    assert np.all(np.isnan(curve.peak_bytes))
    assert curve.efficiency[0] == pytest.approx(1.0)


def test_a_curve_of_an_unknown_type_is_drawn_too(estimator: Estimator) -> None:
    question = CurveQuestion(accelerator="T4", counts=(1, 2, 8))
    curve = estimator.curve(replace(JOB, job_type="never heard of"), question)
    assert np.all(curve.samples_per_second > 0)
    assert set(curve.basis) == {Basis.DEFAULT}


def test_a_matrix_says_what_single_answers_say(estimator: Estimator, ask) -> None:
    places = ["V100-SXM2-16GB", HOST, f"2x({HOST})@eth-25g", "8xT4"]
    matrix = estimator.matrix([JOB], [parse_placement(p) for p in places], {0: OBSERVED})
    answers = [ask(place) for place in places]
    assert matrix.step_time_s[0] == pytest.approx([a.step_time_s for a in answers])
    assert matrix.low[0] == pytest.approx([a.throughput.low for a in answers])
    assert (matrix.coverage, matrix.model_version) == (0.9, answers[0].model_version)
    assert set(answers[0].warnings) <= set(matrix.warnings)


def test_steps_of_other_types_count_once_in_a_matrix(estimator: Estimator, ask) -> None:
    other, places = replace(JOB, job_type="another"), ("T4", "A10")
    # One of them under another name of the card.
    told = (*OBSERVED, seen("NVIDIA-T4", 32, 0.9, None, other), seen(HOST, 32, 0.5, None, other))
    matrix = estimator.matrix([JOB], [parse_placement(p) for p in places], {0: told})
    expected = [ask(place, observed=told).step_time_s for place in places]
    assert matrix.step_time_s[0].tolist() == expected


def test_what_was_observed_of_one_batch_counts_for_all_rows_of_the_job(
    estimator: Estimator, ask
) -> None:
    jobs = [replace(JOB, batch_size=size) for size in (16, 32, 64)]
    places = ["V100-SXM2-16GB", f"2x({HOST})@eth-25g"]
    bad = replace(OBSERVED[0], placement=parse_placement("B10000"))
    stated = {0: [bad], 1: OBSERVED[:2], 2: OBSERVED[2:]}
    matrix = estimator.matrix(jobs, [parse_placement(p) for p in places], stated)
    assert matrix.answered.tolist() == [[False, False], [True, True], [True, True]]
    for row in (1, 2):
        answers = [ask(place, job=jobs[row]) for place in places]
        assert matrix.step_time_s[row] == pytest.approx([a.step_time_s for a in answers])
        assert matrix.low[row] == pytest.approx([a.throughput.low for a in answers])


def test_a_bad_observation_fails_its_row_alone(estimator: Estimator) -> None:
    bad = replace(OBSERVED[0], placement=parse_placement("B10000"))
    jobs = [JOB, replace(JOB, job_type="other")]
    matrix = estimator.matrix(jobs, [parse_placement("T4")], {0: [bad], 1: OBSERVED})
    assert matrix.answered.tolist() == [[False], [True]]
    assert str(matrix.errors[0].error.pointer).startswith("/observations/0/placement")


def test_a_job_is_weighed_once_for_all_machines_where_nothing_else_ran(
    estimator: Estimator,
) -> None:
    of_type = ObservedJobType.of(estimator.core, JOB, OBSERVED)
    assert of_type.on("T4") is of_type.on("V100-SXM2-16GB")


def test_placements_are_ranked(estimator: Estimator) -> None:
    places = [parse_placement(p) for p in ("V100-SXM2-16GB", HOST, f"2x({HOST})@eth-10g")]
    ranking = estimator.rank(JOB, places, RankQuestion(), OBSERVED)
    assert [one.placement for one in ranking.best] == [2, 1, 0]
    assert {one.estimate.model_version for one in ranking.best} == {ranking.model_version}


def test_the_batch_of_the_greatest_goodput_is_found(estimator: Estimator) -> None:
    # Without noise a larger batch gains nothing; with much of it all that is allowed.
    found = []
    for noise in (0.0, 1e9):
        adaptation = {
            "gradient_noise_scale": noise,
            "initial_batch_size": 64,
            "batch_size_bounds": [64, 2048],
        }
        job = replace(JOB, adaptation=adaptation)
        question = RankQuestion(by=Criterion.GOODPUT)
        ranking = estimator.rank(job, [parse_placement(HOST)], question, OBSERVED)
        batch = ranking.best[0].batch
        assert batch is not None
        assert batch.goodput == pytest.approx(batch.samples_per_second * batch.efficiency)
        found.append(batch.global_batch_size)
    assert found[0] < 128 < found[1]


def test_goodput_needs_observed_steps(estimator: Estimator) -> None:
    adaptation = {
        "gradient_noise_scale": 1.0,
        "initial_batch_size": 64,
        "batch_size_bounds": [64, 128],
    }
    job = replace(JOB, adaptation=adaptation)
    ranking = estimator.rank(job, [parse_placement(HOST)], RankQuestion(by=Criterion.GOODPUT))
    assert isinstance(ranking.errors[0], InvalidInputError)
    assert "send some" in str(ranking.errors[0])


def test_other_jobs_on_the_machine_tell_what_its_links_are_like(ask) -> None:
    other = Job(job_type="other", mode=Mode.TRAINING, batch_size=64)
    # Links that are ten times as slow as any catalogue would have it.
    slow = [
        seen("V100-SXM2-16GB", 64, 0.2, None, other),
        seen(HOST, 64, 1.2, 1.0, other),
        seen("2xV100-SXM2-16GB", 64, 1.0, 0.8, other),
    ]
    alone = [OBSERVED[0], OBSERVED[1]]
    assert (
        ask(HOST, observed=[*alone, *slow]).step_time_s
        > 1.3 * ask(HOST, observed=alone).step_time_s
    )


def test_jobs_never_observed_share_the_cells_of_all(estimator: Estimator) -> None:
    types = [replace(JOB, job_type=name) for name in ("a", "b")]
    stored = Strangers(estimator.core, [replace(one, job=types[0]) for one in OBSERVED])
    new = [
        ObservedJobType.of(estimator.core, replace(JOB, job_type=name), (), stored)
        for name in ("c", "d")
    ]
    (first,), (second,) = (one.voices_beside for one in new)
    assert first is second
    # What is known of a job itself is not mixed with what anybody invents.
    own = ObservedJobType.of(estimator.core, types[1], OBSERVED, stored)
    assert not own.voices_beside
    plain = ObservedJobType.of(estimator.core, types[1], OBSERVED)
    assert own.known == plain.known


def test_other_job_types_that_move_an_unknown_one_are_said(estimator: Estimator) -> None:
    job, place = replace(JOB, job_type="unknown"), parse_placement(HOST)
    in_general = estimator.estimate(job, place)
    for times in (0.1, 10.0):
        stored = [
            replace(
                seen(HOST, 32, times * in_general.step_time_s, None, replace(JOB, job_type=name)),
                reporter=f"reporter {at % 6}",
            )
            for at, name in enumerate("abcdefghijkl")
        ]
        known = ObservedJobType.of(estimator.core, job, (), Strangers(estimator.core, stored))
        moved = answer_of_type(estimator.core, known, estimator.core.resolve(place))
        factor = moved.step_time_s / in_general.step_time_s
        assert (factor > 1.1) == (times > 1) and abs(factor - 1) > 0.1
        assert f"6 reporters saw of other job types makes the step {factor:.2f} times" in " ".join(
            moved.warnings
        )
    assert not any("reporters" in text for text in in_general.warnings)


def test_no_reporter_moves_a_job_of_which_nothing_is_known_by_more_than_his_voice(
    estimator: Estimator,
) -> None:
    job, places = replace(JOB, job_type="unknown"), [parse_placement(p) for p in ("T4", HOST)]
    honest = [
        replace(seen(place, 32, 0.2, None, replace(JOB, job_type=name)), reporter=f"honest {name}")
        for name in "abc"
        for place in ("T4", HOST)
    ]
    invented = [
        replace(seen("T4", 32, 500.0, None, replace(JOB, job_type=f"t{n}")), reporter="liar")
        for n in range(20)
    ]

    def times(stored: list[Observation]) -> list[float]:
        known = ObservedJobType.of(estimator.core, job, (), Strangers(estimator.core, stored))
        resolved = [estimator.core.resolve(place) for place in places]
        return [answer_of_type(estimator.core, known, one).step_time_s for one in resolved]

    for others in ([], honest):
        for before, after in zip(times(others), times([*others, *invented]), strict=True):
            assert abs(math.log(after / before)) <= math.log(1.05) + 1e-12


def test_a_faster_machine_is_one_for_all_jobs(ask) -> None:
    """A job never seen on T4 goes by how others do there and where it was seen."""
    others = [
        seen(place, 32, step_s, None, Job(job_type=name, mode=Mode.TRAINING, batch_size=32))
        for name, here_s in (("a", 0.1), ("b", 0.3), ("c", 1.0))
        for place, step_s in (("V100-SXM2-16GB", here_s), ("T4", 8 * here_s))
    ]
    own = OBSERVED[:2]
    assert (
        ask("T4", observed=[*own, *others]).step_time_s > 1.5 * ask("T4", observed=own).step_time_s
    )


def test_whoever_asks_is_believed_of_a_card_in_any_spelling(estimator: Estimator) -> None:
    own = seen("V100", 32, 0.5, None)
    stored = replace(seen("Tesla-V100-SXM2-16GB", 32, 0.1, None), reporter="somebody")
    answers = [
        estimator.estimate(JOB, parse_placement(place), (own, stored))
        for place in ("V100", "V100-SXM2-16GB", "Tesla V100-SXM2-16GB", "p3.2xlarge")
    ]
    assert [one.basis for one in answers] == [Basis.MEASURED] * 4
    assert [one.step_time_s for one in answers] == [pytest.approx(0.5, rel=0.05)] * 4


def test_a_step_of_another_job_type_on_an_unknown_card_is_refused(estimator: Estimator) -> None:
    other = replace(JOB, job_type="other")
    with pytest.raises(InvalidInputError, match="Unknown accelerator 'Nonesuch'") as caught:
        estimator.estimate(
            JOB, parse_placement(HOST), (*OBSERVED, seen("Nonesuch", 32, 1.0, None, other))
        )
    assert caught.value.pointer == f"/observations/{len(OBSERVED)}/placement/nodes/0/accelerator"


@pytest.mark.parametrize("job", [None, replace(JOB, job_type="other")], ids=["own", "other"])
@pytest.mark.parametrize("step_s", [1e-9, 1e6])
def test_a_step_that_no_job_has_is_refused(
    estimator: Estimator, step_s: float, job: Job | None
) -> None:
    told = (*OBSERVED, seen(HOST, 32, step_s, None, job))
    with pytest.raises(InvalidInputError, match="Is it in seconds") as refused:
        estimator.estimate(JOB, parse_placement(HOST), told)
    assert refused.value.pointer == f"/observations/{len(OBSERVED)}/step_time_s"

"""What measuring a step tells of others is what adapting to its record does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import joint_world as world
import numpy as np
import pytest

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import StepSample
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.kinship import SPREADS
from perfmodel.training.probes import campaign_order
from perfmodel.training.probes.campaign_order import measuring_order
from perfmodel.training.probes.record_beliefs import (
    RecordBelief,
    record_beliefs,
    telling_order,
)

NEW = "Gpu-New"
RECORDS = world.samples((NEW,), noise=0.0)


@pytest.fixture(scope="module")
def joint() -> JointPredictor:
    return JointPredictor(folds=2, epochs=1, rounds=5).fit(world.samples())


def _believed(covariance: Sequence[Sequence[float]]) -> RecordBelief:
    return RecordBelief(weight=1.0, covariance=np.array(covariance))


def test_a_measurement_leaves_of_the_others_what_it_does_not_share() -> None:
    # 2 - 1 * 1 / 4, and of what they share 1 - 1 * 2 / 4.
    belief = _believed([[4.0, 1.0, 2.0], [1.0, 2.0, 1.0], [2.0, 1.0, 3.0]])
    assert belief.after(1).covariance.tolist() == [[1.75, 0.5], [0.5, 2.0]]
    assert belief.after(0).covariance.tolist() == belief.covariance.tolist()


def test_what_says_the_same_again_comes_last() -> None:
    # Two that say nearly the same of the first answer, and one that says less, of the second.
    shared = [
        [1.0, 0.99, 0.0, 0.9, 0.0],
        [0.99, 1.0, 0.0, 0.89, 0.0],
        [0.0, 0.0, 1.0, 0.0, 0.5],
        [0.9, 0.89, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.5, 0.0, 1.0],
    ]
    assert telling_order([_believed(shared)], 3, 3) == [0, 2, 1]
    assert telling_order([_believed(shared)], 3, 1, cost_s=np.array([9.0, 1.0, 1.0])) == [1]


def test_an_answer_counts_by_the_ratio_in_which_it_becomes_more_certain() -> None:
    # The first tells half of a certain answer, the second a tenth of a very uncertain one.
    shared = np.diag([1.0, 1.0, 0.02, 10.0])
    shared[0, 2] = shared[2, 0] = 0.01**0.5
    shared[1, 3] = shared[3, 1] = 1.0
    assert telling_order([_believed(shared.tolist())], 2, 1) == [0]


def test_beliefs_count_as_they_are_credible() -> None:
    first, second = np.eye(3), np.eye(3)
    first[0, 2] = first[2, 0] = second[1, 2] = second[2, 1] = 0.5
    for weight, best in ((0.1, 1), (10.0, 0)):
        beliefs = [RecordBelief(weight=weight, covariance=first), _believed(second.tolist())]
        assert telling_order(beliefs, 2, 1) == [best]


def _slower(samples: Sequence[StepSample], ratio: float) -> list[StepSample]:
    return [replace(one, step_time_s=ratio * one.step_time_s) for one in samples]


def _log_times(joint: JointPredictor, records: Sequence[StepSample]) -> FloatArray:
    answers = joint.adapt(records).predict([one.step for one in RECORDS])
    return np.log([answer.time_s for answer in answers])


def test_answers_move_as_is_believed(joint: JointPredictor) -> None:
    taken = RECORDS[:1]
    before = joint.adapt(taken).known_.records[NEW]
    assert before.spread == SPREADS[0] and before.doubt.tolist() == [0.0]
    moved = _log_times(joint, _slower(taken, 1.01)) - _log_times(joint, taken)
    steps = [one.step for one in (*taken, *RECORDS)]
    covariance = record_beliefs(joint, steps)[0].covariance
    expected = covariance[1:, 0] / covariance[0, 0] * np.log(1.01)
    assert moved == pytest.approx(expected, rel=1e-3)


def test_records_that_are_known_leave_less_to_be_told(joint: JointPredictor) -> None:
    steps = [one.step for one in RECORDS[:6]]
    before = record_beliefs(joint, steps)
    (after,) = record_beliefs(joint.adapt(RECORDS[8:20]), steps)
    assert [belief.weight for belief in before] == sorted((b.weight for b in before), reverse=True)
    assert np.all(np.diag(after.covariance) < np.diag(before[0].covariance))


def test_a_long_list_is_looked_at_evenly(
    joint: JointPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_order, "_COMPARED", 5)
    monkeypatch.setattr(campaign_order, "_PLANNED", 3)
    steps = [one.step for one in RECORDS[:21]]
    order = measuring_order(joint, steps, measured=steps[:2])
    assert len(order) == len(set(order)) == 3
    assert set(order) <= {0, 5, 10, 15, 20}


def test_where_records_scatter_further_ones_are_expected_to(joint: JointPredictor) -> None:
    rng = np.random.default_rng(2)
    odd = [replace(r, step_time_s=r.step_time_s * np.exp(rng.normal(0, 0.6))) for r in RECORDS[:12]]
    adapted = joint.adapt(odd)
    known = adapted.known_.records[NEW]
    assert known.scatter > 1.5
    usual = {**adapted.known_.records, NEW: replace(known, scatter=1.0)}
    calm = adapted._knowing(replace(adapted.known_, records=usual))
    steps = [one.step for one in RECORDS[12:]]
    wide, narrow = (record_beliefs(one, steps)[0].covariance for one in (adapted, calm))
    assert np.all(np.diag(wide) > 1.1 * np.diag(narrow))

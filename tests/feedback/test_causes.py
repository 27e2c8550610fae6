"""The cause of a drift is the smallest group that explains it."""

from __future__ import annotations

import math

import pytest
from drift_report.streams import CAUSES, Cluster

from perfmodel.feedback.causes import cause_of
from perfmodel.feedback.drift_fold import DriftFold, RaisedAlarm
from perfmodel.feedback.residuals import EVERYTHING, Group, Residual, groups_of

BEGINS = 600


def _first(cause: str, shift: float, seed: int) -> RaisedAlarm | None:
    fold = DriftFold()
    for residual in Cluster(seed, cause=cause, shift=shift, begins=BEGINS).residuals(BEGINS + 400):
        raised = [one for one in fold.add(residual) if one.opened is residual]
        if raised and residual.number >= BEGINS:
            return raised[0]
    return None


@pytest.mark.parametrize("shift", [math.log(1.2), -math.log(1.2)])
@pytest.mark.parametrize("cause", [name for name in CAUSES if name != "reporter"])
def test_a_drift_is_seen_and_its_cause_named(cause: str, shift: float) -> None:
    alarms = [_first(cause, shift, seed) for seed in (201, 202, 203)]
    assert [one and one.group for one in alarms] == 3 * [CAUSES[cause]]
    # Each as it looked after a handful of residuals.
    shifts = sorted(one.cause.shift for one in alarms if one)
    assert shifts[1] == pytest.approx(shift, rel=0.3)
    assert all(one * shift > 0 for one in shifts)


def test_a_reporter_who_is_alone_with_it_is_named() -> None:
    alarms = [_first("reporter", math.log(2.0), seed) for seed in (201, 202, 203)]
    assert [one and one.group for one in alarms] == 3 * [CAUSES["reporter"]]


def test_where_nothing_drifts_hardly_anything_is_alarming() -> None:
    # 0.04 of 1,000 over many clusters: 0.4 of these are to be expected.
    raised = [
        one for seed in range(3) for one in DriftFold().add_all(Cluster(seed).residuals(3_000))
    ]
    assert len(raised) <= 2


def _residual(number: int, card: str, reporter: str, job: str, log_ratio: float) -> Residual:
    groups = groups_of(
        accelerator=card, software={}, mode="training", operators="products", reporter=reporter
    )
    return Residual(number=number, at="", log_ratio=log_ratio, scale=0.05, job=job, groups=groups)


def test_groups_that_cannot_be_told_apart_are_named_beside_the_first() -> None:
    # Only one reporter reports of the card: either may be the cause.
    seen = [
        _residual(n, *(("T4", "a", f"j{n % 3}", 0.2) if n % 2 else ("L4", "b", "k", 0.0)))
        for n in range(1, 41)
    ]
    cause = cause_of(seen, EVERYTHING)
    assert cause is not None
    assert cause.group == Group("accelerator", "T4")
    assert cause.also == (Group("reporter", "a"),)
    assert cause.shift == pytest.approx(0.2)


def test_a_job_that_was_changed_is_no_cause_for_alarm() -> None:
    seen = [_residual(n, "T4", "a", f"j{n % 4}", 0.5 if n % 4 == 0 else 0.0) for n in range(1, 81)]
    assert cause_of(seen, EVERYTHING) is None


def test_a_shift_that_is_small_beside_what_answers_promise_is_none() -> None:
    seen = [_residual(n, "T4", "a", f"j{n % 4}", 0.04) for n in range(1, 200)]
    assert cause_of(seen, EVERYTHING) is None

"""The same residuals give the same alarms, which end when the residuals are fine again."""

from __future__ import annotations

import sys

import pytest
from drift_report.streams import CAUSES, Cluster

from perfmodel.errors import MissingExtraError
from perfmodel.feedback.drift_fold import FINE_COUNT, DriftFold, RaisedAlarm
from perfmodel.feedback.residuals import Group, Residual, groups_of


def _told(alarm: RaisedAlarm) -> tuple[Group, int, int | None, int]:
    ended = alarm.ended.number if alarm.ended else None
    return alarm.group, alarm.opened.number, ended, len(alarm.cause.residuals)


def _residual(number: int, log_ratio: float, *, card: str = "T4", scale: float = 0.05) -> Residual:
    groups = groups_of(
        accelerator=card,
        software={"torch": "2.9.1"},
        mode="training",
        operators="products",
        reporter=f"r{number % 3}",
    )
    job = f"j{number % 7}"
    return Residual(
        number=number, at=str(number), log_ratio=log_ratio, scale=scale, job=job, groups=groups
    )


def test_the_same_residuals_give_the_same_alarms_in_whatever_parts_they_come() -> None:
    residuals = list(Cluster(7, cause="accelerator", shift=0.3, begins=300).residuals(900))
    at_once = [_told(one) for one in DriftFold().add_all(residuals)]
    parts = DriftFold()
    found: dict[int, RaisedAlarm] = {}
    for start in range(0, len(residuals), 7):
        found |= {id(one): one for one in parts.add_all(residuals[start : start + 7])}
    assert [_told(one) for one in found.values()] == at_once
    assert CAUSES["accelerator"] in [group for group, *_ in at_once]


def test_an_alarm_ends_when_the_residuals_are_fine_again_and_comes_again() -> None:
    fold, events = DriftFold(), []
    pattern = 100 * [0.0] + 30 * [0.3] + 60 * [0.0] + 30 * [-0.3] + 60 * [0.0]
    for number, log_ratio in enumerate(pattern, 1):
        own = _residual(2 * number, log_ratio)
        events += [(one.group.value, one.ended is None) for one in fold.add(own)]
        events += [
            (one.group.value, one.ended is None)
            for one in fold.add(_residual(2 * number + 1, 0.0, card="L4"))
        ]
    assert events == 2 * [("T4", True), ("T4", False)]
    assert not fold.open


def test_an_alarm_does_not_end_while_residuals_are_off() -> None:
    fold = DriftFold()
    fold.add_all(_residual(number, 0.0) for number in range(1, 100))
    fold.add_all(_residual(number, 0.3) for number in range(100, 200))
    assert len(fold.open) == 1
    fold.add_all(_residual(number, 0.0) for number in range(200, 200 + FINE_COUNT // 2))
    assert len(fold.open) == 1


def test_a_card_that_was_off_from_its_first_step_is_alarming() -> None:
    # What is promised is nothing, not what the group itself was like at first.
    fold = DriftFold()
    fold.add_all(_residual(number, 0.0, card="L4") for number in range(1, 100))
    raised = fold.add_all(
        _residual(
            number, 0.6 if number % 2 else 0.0, card="H100" if number % 2 else "L4", scale=0.3
        )
        for number in range(100, 160)
    )
    assert [one.group for one in raised] == [Group("accelerator", "H100")]


def test_what_an_alarm_explains_is_no_news_of_other_groups() -> None:
    fold = DriftFold()
    fold.add_all(_residual(number, 0.0) for number in range(1, 100))
    raised = fold.add_all(_residual(number, 0.4) for number in range(100, 400))
    assert len(raised) == len(fold.open) == 1


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "river.drift", None)
    with pytest.raises(MissingExtraError, match=r"perfmodel\[retrain\]"):
        DriftFold().add(_residual(1, 0.0))

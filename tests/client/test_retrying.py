from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from perfmodel.client.errors import (
    NoAnswerError,
    Problem,
    RefusedError,
    TimedOutError,
    UnavailableError,
    UnreachableError,
    UnreadableAnswerError,
)
from perfmodel.client.protocol.retrying import Retrying, retry_after_s

DOWN = UnreachableError("down")


def _status(status: int, after_s: float | None = None) -> UnavailableError:
    return UnavailableError(Problem(status=status), retry_after_s=after_s)


def test_waits_double_up_to_the_longest() -> None:
    # No jitter where chance returns 0: 0.1, 0.2, 0.4, 0.8, and 1.0 in the place of 1.6.
    retrying = Retrying(most=5, first_s=0.1, most_s=1.0, chance=lambda: 0.0)
    waits = [retrying.wait_s(sent, DOWN) for sent in range(1, 7)]
    assert waits == [pytest.approx(x) for x in (0.1, 0.2, 0.4, 0.8, 1.0)] + [None]


def test_chance_takes_up_to_half_of_a_wait() -> None:
    retrying = Retrying(most=1, first_s=0.1, chance=lambda: 1.0)
    assert retrying.wait_s(1, DOWN) == pytest.approx(0.05)


def test_a_wait_is_never_shorter_than_asked_for() -> None:
    retrying = Retrying(first_s=0.1, chance=lambda: 0.0)
    assert retrying.wait_s(1, _status(503, after_s=3.0)) == 3.0
    assert retrying.wait_s(1, _status(429, after_s=0.0)) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (DOWN, True),
        (_status(429), True),
        (_status(502), True),
        (_status(503), True),
        (_status(504), True),
        (_status(500), False),
        (_status(501), False),
        (_status(507), False),
        (UnavailableError(Problem(status=504, type="urn:perfmodel:problem:not-in-time")), False),
        (RefusedError(Problem(status=422)), False),
        (TimedOutError("slow"), False),
        (UnreadableAnswerError("garbage"), False),
    ],
)
def test_only_what_passes_is_tried_again(error: NoAnswerError, again: bool) -> None:
    assert (Retrying().wait_s(1, error) is not None) == again


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    soon = datetime.now(UTC) + timedelta(seconds=90)
    assert retry_after_s(format_datetime(soon, usegmt=True)) == pytest.approx(90, abs=2)
    assert [retry_after_s(written) for written in ("120", "-1", "", None)] == [
        120,
        None,
        None,
        None,
    ]

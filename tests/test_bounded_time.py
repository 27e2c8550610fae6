"""A bound is kept at once, or twice in a row after a miss."""

from __future__ import annotations

import pytest
from bounded_time import bounded_s


@pytest.mark.parametrize(
    ("tries", "found", "made"),
    [
        ([1.0], 1.0, 1),
        ([3.0, 1.0, 1.5], 1.5, 3),
        ([3.0, 1.0, 2.5, 1.5, 1.0], 1.5, 5),
        ([3.0, 1.0, 2.5, 1.0, 2.5], 3.0, 5),
        ([3.0, 2.5, 2.5, 2.5, 1.0], 3.0, 5),
    ],
)
def test_a_miss_is_made_good_by_two_in_a_row(tries: list[float], found: float, made: int) -> None:
    left = iter(tries)
    assert bounded_s(lambda: next(left), within_s=2.0) == found
    assert len(list(left)) == len(tries) - made

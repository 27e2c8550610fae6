"""Unions of intervals."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.traces.analysis.timeline import Spans

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=12)


def _spans(pairs: list[tuple[int, int]]) -> Spans:
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    return Spans.union(starts, starts + np.array([size for _, size in pairs], dtype=np.int64))


def _covered(pairs: list[tuple[int, int]]) -> set[int]:
    return {t for start, size in pairs for t in range(start, start + size)}


@settings(max_examples=80, deadline=None)
@given(first=PAIRS, second=PAIRS, window=st.tuples(st.integers(0, 40), st.integers(0, 40)))
def test_unions_and_windows_count_every_moment_once(
    first: list[tuple[int, int]], second: list[tuple[int, int]], window: tuple[int, int]
) -> None:
    one, other = _spans(first), _spans(second)
    assert one.total_ns == len(_covered(first))
    assert one.with_spans(other).total_ns == len(_covered(first) | _covered(second))
    low, high = sorted(window)
    assert one.within(low, high).total_ns == len(_covered(first) & set(range(low, high)))
    gaps = one.gaps()
    assert np.all(gaps.end_ns > gaps.start_ns)

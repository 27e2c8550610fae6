"""Bounds of time on a machine that others use too: of several tries the fastest counts.

Whatever else runs makes a try slower and none faster, so the fastest is nearest to what the code
itself takes. A try that keeps the bound is the last one; code that is too slow keeps it in none.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Tries of what does not keep its bound at first.
_TRIES = 5


def least_s(attempt: Callable[[], float], *, within_s: float) -> float:
    """Return the least time that an attempt took, of as many as it needs to keep a bound.

    Parameters
    ----------
    attempt : callable
        Does the work, checks what came of it, and returns the seconds that it took.
    within_s : float
        The bound, which whoever calls asserts.
    """
    taken_s = [attempt()]
    while min(taken_s) >= within_s and len(taken_s) < _TRIES:
        taken_s.append(attempt())
    return min(taken_s)


def least_wall_s(action: Callable[[], object], *, within_s: float) -> float:
    """Return the least time between beginning and end of an action."""
    return least_s(lambda: _taken_s(action, time.monotonic), within_s=within_s)


def least_cpu_s(action: Callable[[], object], *, within_s: float) -> float:
    """Return the least time of the processor that an action took in this process."""
    return least_s(lambda: _taken_s(action, time.process_time), within_s=within_s)


def _taken_s(action: Callable[[], object], clock: Callable[[], float]) -> float:
    began = clock()
    action()
    return clock() - began

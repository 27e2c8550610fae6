"""How much work something is, told without a clock: the same on every machine, however busy."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


def calls_of(action: Callable[[], object]) -> int:
    """Return how many functions an action calls, of Python and built in.

    What an array library does within one call is one call, so that what works in columns takes as
    many for a thousand rows as for ten.
    """
    action()  # what is done once and kept does not count
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # what ends with garbage of other tests is called whenever that is collected
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls

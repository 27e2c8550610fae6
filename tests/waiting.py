"""Waiting for what comes about by itself: in another thread, another process, on another host."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

#: Longer than anything takes that is waited for, however busy the machine is: what is not there
#: by then never comes.
PATIENCE_S = 120.0

T = TypeVar("T")


def until(
    condition: Callable[[], T | None], *, patience_s: float = PATIENCE_S, every_s: float = 0.02
) -> T:
    """Ask again and again until the answer is true, and return it.

    Parameters
    ----------
    condition : callable
    patience_s : float
        Longer where what is waited for works for minutes on an idle machine.
    every_s : float
        Rest between two questions.
    """
    end_s = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < end_s, f"it did not come about: {found!r}"
        time.sleep(every_s)
    return found

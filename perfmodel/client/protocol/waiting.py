"""Waiting for what the service does by itself, asking more and more seldom."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from perfmodel.client.errors import TimedOutError
from perfmodel.client.protocol.messages import Call, Task, Wait

_LONGEST_WAIT_S = 10.0


class _Ends(Protocol):
    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it."""


E = TypeVar("E", bound=_Ends)


def until_ended(
    asked: Call[E],
    said: Callable[[E], str],
    *,
    now: E | None = None,
    timeout_s: float,
    first_s: float,
    longest_s: float = _LONGEST_WAIT_S,
) -> Task[E]:
    """Ask again and again until something has ended.

    Parameters
    ----------
    now : object or None
        How it is, where that is known already.
    said : callable
        What it is and how far, for the error.
    first_s, longest_s : float
        Pauses, seconds; each is twice the one before.

    Raises
    ------
    TimedOutError
        It has not ended by then; it can be waited for again.
    """
    until, pause_s = time.monotonic() + timeout_s, first_s
    found: E = (yield asked) if now is None else now
    while not found.has_ended:
        if time.monotonic() + pause_s > until:
            raise TimedOutError(f"{said(found)} after {timeout_s:g} s.")
        yield Wait(seconds=pause_s)
        pause_s = min(2 * pause_s, longest_s)
        found = yield asked
    return found

"""Whether anybody still waits for what a thread works on, and captures that several wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Generic, TypeVar

T = TypeVar("T")

#: How often whoever waits in a thread looks whether anybody wants what it waits for, seconds.
LOOK_S = 0.25


class AbandonedError(Exception):
    """Nobody waits any more for what had not begun, or for what stood in others' way."""


#: Tells whether anybody waits for what is worked on; entered where it is taken in.
IS_WANTED: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)


def wanted_within(event: Event, timeout_s: float | None = None) -> bool:
    """Wait for an event as long as anybody wants what follows; returns whether it came.

    Raises
    ------
    AbandonedError
        Nobody does any more.
    """
    is_wanted, end_s = IS_WANTED.get(), None
    if timeout_s is not None:
        end_s = time.monotonic() + timeout_s
    while is_wanted():
        left_s = LOOK_S if end_s is None else min(LOOK_S, end_s - time.monotonic())
        if event.wait(max(0.0, left_s)):
            return True
        if end_s is not None and time.monotonic() >= end_s:
            return False
    raise AbandonedError("Nobody waits for it any more.")


@dataclass
class _UnderWay(Generic[T]):
    wanted: list[Callable[[], bool]] = field(default_factory=list)
    ended: Event = field(default_factory=Event)
    result: T | None = None

    def is_wanted(self) -> bool:
        return any(wanted() for wanted in self.wanted)


class SharedWork(Generic[T]):
    """Works once on what several threads ask for at a time; it is wanted as long as any of them is.

    Where it fails, the others try for themselves: each may have terms of its own.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, _UnderWay[T]] = {}
        self._lock = Lock()

    def run(self, key: str, work: Callable[[], T]) -> T:
        """Return what comes of it, worked out here or by whoever began before.

        Raises
        ------
        AbandonedError
            Nobody waits for it in this thread any more.
        """
        while True:
            found, is_first = self._joined(key)
            if is_first:
                return self._lead(key, found, work)
            wanted_within(found.ended)
            if found.result is not None:
                return found.result

    def _joined(self, key: str) -> tuple[_UnderWay[T], bool]:
        with self._lock:
            is_first = key not in self._under_way
            found = self._under_way.setdefault(key, _UnderWay())
            found.wanted.append(IS_WANTED.get())
            return found, is_first

    def _lead(self, key: str, found: _UnderWay[T], work: Callable[[], T]) -> T:
        token = IS_WANTED.set(found.is_wanted)
        try:
            found.result = result = work()
            return result
        finally:
            IS_WANTED.reset(token)
            with self._lock:
                del self._under_way[key]
            found.ended.set()

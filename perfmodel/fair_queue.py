"""Who comes next: callers in turn, whoever has least under way first."""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Hands a few places out to many callers, so that none waits for all that another brought.

    The place goes to the caller with the fewest, among equals to the one that was served longest
    ago. One caller never holds the last of several places: whoever comes next finds it free.
    Whoever shares one between threads holds a lock around each call.

    Parameters
    ----------
    places : int
        What may be under way at a time, >= 1.

    Examples
    --------
    >>> queue = FairQueue(1)
    >>> for item in ("a1", "a2", "a3"):
    ...     queue.add("a", item)
    >>> queue.take()
    ('a', 'a1')
    >>> queue.add("b", "b1")
    >>> queue.take() is None
    True
    >>> queue.done("a")
    >>> queue.take()
    ('b', 'b1')
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._share = max(1, places - 1)
        self._waiting: dict[str, deque[T]] = {}
        self._working: Counter[str] = Counter()
        #: When each caller of whom something waits or is under way was served last, in places.
        self._served: dict[str, int] = {}
        self._count = 0

    @property
    def has_waiting(self) -> bool:
        """Whether anything waits for a place."""
        return bool(self._waiting)

    def add(self, caller: str, item: T) -> None:
        """Let something wait for a place."""
        self._waiting.setdefault(caller, deque()).append(item)

    def remove(self, caller: str, item: T) -> bool:
        """Take back what waits; False where it has its place already."""
        waiting = self._waiting.get(caller)
        if waiting is None or item not in waiting:
            return False
        waiting.remove(item)
        if not waiting:
            del self._waiting[caller]
            if not self._working[caller]:
                self._served.pop(caller, None)
        return True

    def take(self) -> tuple[str, T] | None:
        """Give a place to what comes next; None where none is free, or nothing may have it."""
        if self._working.total() >= self._places:
            return None
        may = [caller for caller in self._waiting if self._working[caller] < self._share]
        if not may:
            return None
        caller = min(may, key=lambda one: (self._working[one], self._served.get(one, 0)))
        item = self._waiting[caller].popleft()
        self._count += 1
        self._served[caller] = self._count
        if not self._waiting[caller]:
            del self._waiting[caller]
        self._working[caller] += 1
        return caller, item

    def done(self, caller: str) -> None:
        """Give back a place."""
        self._working[caller] -= 1
        if not self._working[caller]:
            del self._working[caller]
            if caller not in self._waiting:
                self._served.pop(caller, None)

    def open_of(self, caller: str) -> int:
        """Return how much of a caller waits or is under way."""
        return len(self._waiting.get(caller, ())) + self._working[caller]

    def clear(self) -> list[T]:
        """Return all that waits, which nobody will be given any more."""
        left = [item for waiting in self._waiting.values() for item in waiting]
        self._waiting.clear()
        return left

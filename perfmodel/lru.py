"""A bounded mapping that forgets what was used longest ago."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from itertools import islice
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Keeps the most recently used values; safe to share between threads.

    Parameters
    ----------
    capacity : int
        Values kept at most, >= 1.

    Examples
    --------
    >>> cache = LruCache(2)
    >>> for key in "ab":
    ...     cache.put(key, key.upper())
    >>> cache.get("a")
    'A'
    >>> cache.put("c", "C")
    >>> cache.get("b") is None, len(cache)
    (True, 2)
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"A cache holds at least one value; got capacity {capacity}.")
        self._capacity = capacity
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Keep a value; may forget another."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)

    def keep_first(self, key: K, value: V) -> V:
        """Keep a value unless there is one; returns the one that is kept."""
        known = self.get(key)
        if known is None:
            self.put(key, value)
        return value if known is None else known

    def put_all(self, pairs: Iterable[tuple[K, V]]) -> None:
        """Keep many values, what is used longest ago first; may forget others."""
        with self._lock:
            self._values.update(pairs)
            while len(self._values) > self._capacity:
                self._values.popitem(last=False)

    def items(self) -> list[tuple[K, V]]:
        """Return everything that is kept, what was used longest ago first."""
        with self._lock:
            return list(self._values.items())

    def recent(self, most: int) -> list[K]:
        """Return the keys that were used last, the latest first."""
        with self._lock:
            return list(islice(reversed(self._values), most))

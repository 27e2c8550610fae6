"""A bounded mapping that forgets what was used longest ago."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
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
    weigh : callable or None
        Tells how much room a key and its value take, in any unit; what that is may not change
        while they are kept. None: all the same.
    most_weight : float
        What all may weigh together. One that is heavier by itself is kept alone.

    Examples
    --------
    >>> cache = LruCache(2)
    >>> for key in "ab":
    ...     cache.put(key, key.upper())
    >>> cache.get("a")
    'A'
    >>> cache.put("c", "C")
    >>> cache.get("b") is None, len(cache), cache.recent_items(1)
    (True, 2, [('c', 'C')])
    >>> texts = LruCache(9, weigh=lambda key, text: len(text), most_weight=10)
    >>> texts.put_all([("a", "four"), ("b", "fives"), ("c", "three")])
    >>> texts.get("a") is None, len(texts)
    (True, 2)
    """

    def __init__(
        self,
        capacity: int,
        *,
        weigh: Callable[[K, V], float] | None = None,
        most_weight: float = math.inf,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"A cache holds at least one value; got capacity {capacity}.")
        self._capacity = capacity
        self._weigh = weigh or (lambda key, value: 0.0)
        self._most_weight = most_weight
        self._weight = 0.0
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
            if key in self._values:
                self._drop(key)
            self._values[key] = value
            self._weight += self._weigh(key, value)
            while len(self._values) > self._capacity or (
                self._weight > self._most_weight and len(self._values) > 1
            ):
                self._drop(next(iter(self._values)))

    def keep_first(self, key: K, value: V) -> V:
        """Keep a value unless there is one; returns the one that is kept."""
        known = self.get(key)
        if known is None:
            self.put(key, value)
        return value if known is None else known

    def put_all(self, pairs: Iterable[tuple[K, V]]) -> None:
        """Keep many values, what is used longest ago first; may forget others."""
        for key, value in pairs:
            self.put(key, value)

    def drop(self, unwanted: Callable[[K, V], bool]) -> None:
        """Forget every value that is unwanted."""
        with self._lock:
            for key, value in list(self._values.items()):
                if unwanted(key, value):
                    self._drop(key)

    def items(self) -> list[tuple[K, V]]:
        """Return everything that is kept, what was used longest ago first."""
        with self._lock:
            return list(self._values.items())

    def recent(self, most: int) -> list[K]:
        """Return the keys that were used last, the latest first."""
        return [key for key, _ in self.recent_items(most)]

    def recent_items(self, most: int) -> list[tuple[K, V]]:
        """Return what was used last, the latest first; it takes no longer the more is kept."""
        with self._lock:
            return list(islice(reversed(self._values.items()), most))

    def _drop(self, key: K) -> None:
        self._weight -= self._weigh(key, self._values.pop(key))

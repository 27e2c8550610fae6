"""Answers with the tag under which the service would send them again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """An answer.

    Parameters
    ----------
    tag : str
        Its ``ETag``.
    size_bytes : int
        Of the reply it was read from.
    """

    tag: str
    answer: Any
    size_bytes: int


class KeptAnswers:
    """The answers that were used last, up to a size; safe among threads.

    Parameters
    ----------
    most_bytes : int
        Of their replies, all together.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Kept | None:
        """Return the answer to a question, None where there is none."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: bytes, kept: Kept) -> None:
        """Keep an answer; those that were not used for the longest time make room."""
        if kept.size_bytes > self._most_bytes:
            return
        with self._lock:
            old = self._kept.pop(key, None)
            self._bytes += kept.size_bytes - (old.size_bytes if old else 0)
            self._kept[key] = kept
            while self._bytes > self._most_bytes:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= gone.size_bytes

"""Jobs that were asked about, by the bytes that named them."""

from __future__ import annotations

from collections.abc import Callable

from perfmodel.estimator import PreparedJob
from perfmodel.lru import LruCache
from service.answering.known import Key


class JobsByBytes(LruCache[Key, PreparedJob]):
    """Recognises jobs, and tells of each that it is given."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        #: Told of every job that is kept; must not wait.
        self.on_new: Callable[[PreparedJob], None] = _ignore

    def put(self, key: Key, value: PreparedJob) -> None:
        """Recognise a job from now on."""
        super().put(key, value)
        self.on_new(value)


def _ignore(prepared: PreparedJob) -> None:
    """Leave it at that."""

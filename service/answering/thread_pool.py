"""Threads for what takes long, and a bound on how much of it may wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from perfmodel.errors import PerfModelError
from service.http.errors import OverloadedError
from service.metrics.registry import Metrics

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ThreadPool:
    """A pool of threads with a queue that is counted.

    What is under way counts until it is through, whoever still waits for it.

    Parameters
    ----------
    name : str
        Of the queue in the metrics.
    most : int
        What may wait or be under way.
    """

    def __init__(self, name: str, metrics: Metrics, *, workers: int, most: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=name)
        self._depth = metrics.queue(name)
        self._most = most
        self._count = 0
        self._lock = Lock()

    @property
    def count(self) -> int:
        """What waits or is under way."""
        return self._count

    async def run(self, action: Callable[..., T], *args: Any) -> T:
        """Run something and wait for it."""
        return await asyncio.wrap_future(self.submit(action, *args))

    def submit(self, action: Callable[..., T], *args: Any) -> Future[T]:
        """Run something.

        Raises
        ------
        OverloadedError
            As many as may wait already do.
        """
        with self._lock:
            if self._count >= self._most:
                raise OverloadedError(
                    f"{self._count} questions already wait for a capture or the model. Try again "
                    "later, or state deadline_ms to be answered by the analytical model."
                )
            self._count += 1
        self._depth.inc()
        future = self._pool.submit(action, *args)
        future.add_done_callback(self._leave)
        return future

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _leave(self, future: Future[Any]) -> None:
        with self._lock:
            self._count -= 1
        self._depth.dec()


def note_failure(future: Future[Any]) -> None:
    """Log what went wrong with something that nobody waits for any more."""
    error = None if future.cancelled() else future.exception()
    if isinstance(error, PerfModelError):
        logger.debug("what went on in the background could not be answered: %s", error)
    elif error is not None:
        logger.error("what went on in the background failed", exc_info=error)

"""Threads for what takes long: callers in turn, and a bound on what may wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from perfmodel.errors import PerfModelError
from perfmodel.estimator.jobs.capture_terms import terms_of_request
from perfmodel.estimator.jobs.demand import AbandonedError
from perfmodel.fair_queue import FairQueue
from service.access.callers import GUEST
from service.answering.hang_ups import while_connected
from service.http.errors import OverloadedError, TooManyWaitingError
from service.metrics.registry import Metrics

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ThreadPool:
    """A pool of threads with a queue that is counted; callers take turns (:class:`FairQueue`).

    What is under way counts until it is through, whoever still waits for it. Of what may wait, one
    key brings half at most, so that there is room for others.

    Parameters
    ----------
    name : str
        Of the queue in the metrics.
    most : int
        What may wait or be under way.
    """

    def __init__(self, name: str, metrics: Metrics, *, workers: int, most: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=name)
        self._queue: FairQueue[tuple[Future[Any], Callable[[], Any]]] = FairQueue(workers)
        self._depth = metrics.queue(name)
        self._most = most
        self._most_of_a_key = max(1, most // 2)
        self._count = 0
        self._is_closed = False
        self._lock = Lock()

    @property
    def count(self) -> int:
        """What waits or is under way."""
        return self._count

    async def run(self, action: Callable[..., T], *args: Any) -> T:
        """Run something and wait for it, as long as the caller is there."""
        return await while_wanted(self.submit(action, *args))

    def submit(self, action: Callable[..., T], *args: Any) -> Future[T]:
        """Run something, for the caller whose request this is and on its terms.

        What is cancelled before it begins gives its room to others.

        Raises
        ------
        OverloadedError
            As many as may wait already do.
        TooManyWaitingError
            As many of this key as may.
        """
        caller = terms_of_request().caller
        future: Future[T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("The threads have ended.")
            self._refuse_one_too_many(caller)
            work = (future, partial(copy_context().run, action, *args))
            self._queue.add(caller, work)
            self._count += 1
        self._depth.inc()
        future.add_done_callback(lambda ended: self._leave(caller, work))
        self._hand_out()
        return future

    def check_room(self) -> None:
        """Raise what :meth:`submit` would, had the caller whose request this is something to run.

        Raises
        ------
        OverloadedError, TooManyWaitingError
            As :meth:`submit`.
        """
        with self._lock:
            self._refuse_one_too_many(terms_of_request().caller)

    def close(self) -> None:
        """Let the threads end."""
        with self._lock:
            self._is_closed = True
            left = self._queue.clear()
        for future, _ in left:
            future.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _refuse_one_too_many(self, caller: str) -> None:
        if self._count >= self._most:
            raise OverloadedError(
                f"{self._count} questions already wait for a capture or the model. Try again "
                "later, or state deadline_ms to be answered by the analytical model."
            )
        if caller in ("", GUEST):
            return
        waiting = self._queue.open_of(caller)
        if waiting >= self._most_of_a_key:
            raise TooManyWaitingError(
                f"{waiting} questions of this key already wait. Let some be answered first, and "
                "try again."
            )

    def _hand_out(self) -> None:
        while True:
            with self._lock:
                taken = None if self._is_closed else self._queue.take()
                if taken is None:
                    return
                self._pool.submit(self._work, *taken)

    def _work(self, caller: str, work: tuple[Future[Any], Callable[[], Any]]) -> None:
        future, action = work
        if future.set_running_or_notify_cancel():
            try:
                result = action()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        with self._lock:
            self._queue.done(caller)
        self._hand_out()

    def _leave(self, caller: str, work: tuple[Future[Any], Callable[[], Any]]) -> None:
        with self._lock:
            self._count -= 1
            self._queue.remove(caller, work)
        self._depth.dec()


async def while_wanted(work: Future[T]) -> T:
    """Wait for work, which is cancelled where the caller hangs up."""
    try:
        return await while_connected(work)
    finally:
        work.cancel()


def note_failure(future: Future[Any]) -> None:
    """Log what went wrong with something that nobody waits for any more."""
    error = None if future.cancelled() else future.exception()
    if isinstance(error, PerfModelError | AbandonedError | asyncio.CancelledError):
        logger.debug("what went on in the background could not be answered: %s", error)
    elif error is not None:
        logger.error("what went on in the background failed", exc_info=error)

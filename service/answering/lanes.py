"""Threads for what takes long: callers in turn, a bound on what may wait, and two lanes.

One lane never waits for a capture; the other is for what has to.
"""

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
from perfmodel.estimator.jobs.capture_terms import (
    CaptureNeededError,
    terms_of_request,
    without_captures,
)
from perfmodel.fair_queue import FairQueue
from service.access.callers import GUEST
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
        """Run something and wait for it."""
        return await asyncio.wrap_future(self.submit(action, *args))

    def submit(self, action: Callable[..., T], *args: Any) -> Future[T]:
        """Run something, for the caller whose request this is and on its terms.

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
            self._queue.add(caller, (future, partial(copy_context().run, action, *args)))
            self._count += 1
        self._depth.inc()
        future.add_done_callback(self._leave)
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


class Lanes:
    """Runs everything where nothing waits for a capture, and again in the other lane what must.

    A question about known jobs, a list or an observation so never stands behind a capture, however
    many are asked for. What is run twice has changed nothing the first time: jobs are captured
    before anything else is done with them.

    Parameters
    ----------
    quick : ThreadPool
        A capture that is needed here sends its question to the other lane.
    captures : ThreadPool
        Where captures are waited for; a thread for each that may wait.
    """

    def __init__(self, quick: ThreadPool, captures: ThreadPool) -> None:
        self.quick = quick
        self.captures = captures

    @property
    def count(self) -> int:
        """What waits or is under way, in both lanes."""
        return self.quick.count + self.captures.count

    async def run(self, action: Callable[..., T], *args: Any) -> T:
        """Run something and wait for it."""
        return await asyncio.wrap_future(self.submit(action, *args))

    def submit(self, action: Callable[..., T], *args: Any) -> Future[T]:
        """Run something; as :meth:`ThreadPool.submit`, whose errors the future may hold too."""
        answer: Future[T] = Future()
        answer.set_running_or_notify_cancel()
        context = copy_context()

        def pass_on(first: Future[T]) -> None:
            error = _error_of(first)
            if not isinstance(error, CaptureNeededError):
                settle(answer, first)
                return
            try:
                second = context.run(self.captures.submit, action, *args)
            except (PerfModelError, RuntimeError) as refused:  # the latter once they are closed
                answer.set_exception(refused)
            else:
                second.add_done_callback(lambda done: settle(answer, done))

        self.quick.submit(without_captures, action, *args).add_done_callback(pass_on)
        return answer

    def close(self) -> None:
        """Let the threads end."""
        self.quick.close()
        self.captures.close()


def settle(answer: Future[T], done: Future[T]) -> None:
    """Let one future end as another did."""
    error = _error_of(done)
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())


def _error_of(done: Future[Any]) -> BaseException | None:
    if done.cancelled():
        return asyncio.CancelledError()
    return done.exception()

"""Threads for what takes long: callers in turn, and a bound on what may wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from math import inf
from threading import Lock
from time import thread_time
from typing import Any, TypeVar

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator.jobs.capture_terms import (
    GOES_ON,
    IS_WANTED,
    AbandonedError,
    CaptureNeededError,
    TooMuchWorkError,
    terms_of_request,
)
from perfmodel.fair_queue import FairQueue
from service.access.access_policy import GUEST
from service.answering.request_terms import while_connected
from service.http.errors import OverloadedError, TooManyWaitingError
from service.metrics.registry import Metrics

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Work(Future[T]):
    """Something that threads do, for one caller and on the terms of its request.

    Attributes
    ----------
    is_wanted : bool
        Whether anybody waits for it; who comes for it again says so here.
    is_given_up : bool
        Whether all who waited for it have gone: nobody will ask for what came of it.
    pool : ThreadPool or None
        Where it waits or is under way.
    """

    def __init__(self, action: Callable[[], T]) -> None:
        super().__init__()
        self.action = action
        self.caller = terms_of_request().caller
        self.is_wanted, self.is_given_up = True, False
        self.pool: ThreadPool | None = None
        self.context = copy_context()
        self.context.run(IS_WANTED.set, lambda: self.is_wanted)

    def cancel(self) -> bool:
        """Say that nobody waits for it; returns False where it has begun.

        What waits for a capture then ends by itself; what computes goes on to its end.
        """
        self.is_wanted = False
        return self.pool is not None and self.pool.take_back(self) and super().cancel()

    def give_up(self) -> bool:
        """Say that all who waited for it have gone, as :meth:`cancel`; what computes ends too."""
        self.is_given_up = True
        return self.cancel()

    def run(
        self, running: Callable[[Callable[[], T]], T] | None = None, *, most_s: float = inf
    ) -> T:
        """Do it in this thread, in the context of its request.

        Parameters
        ----------
        running : callable or None
            Runs the action; None: as it is.
        most_s : float
            Processor time that it may take, seconds.

        Raises
        ------
        AbandonedError
            It was given up meanwhile.
        InvalidInputError
            It took more.
        """
        end_s = thread_time() + most_s

        def goes_on() -> None:
            if self.is_given_up:
                raise AbandonedError("Nobody waits for it any more.")
            if thread_time() > end_s:
                raise TooMuchWorkError

        self.context.run(GOES_ON.set, goes_on)
        try:
            return self.context.run(running or _as_it_is, self.action)
        except TooMuchWorkError:
            raise InvalidInputError(
                f"The question took more than the {most_s:g} s of computing that one may take here."
                " Ask about less at a time: fewer jobs, placements or counts."
            ) from None


def _as_it_is(action: Callable[[], T]) -> T:
    return action()


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
    most_s : float
        Processor time that one of them may take, seconds.
    running : callable or None
        Runs something as far as it may capture here; None: however far it goes.
    beyond : ThreadPool or None
        Where what needs a graph that it may not capture here is run again.
    """

    def __init__(
        self, name: str, metrics: Metrics, *, workers: int, most: int, most_s: float = inf,
        running: Callable[[Callable[[], Any]], Any] | None = None,
        beyond: ThreadPool | None = None,
    ) -> None:  # fmt: skip
        self.beyond = beyond
        self._running = running
        self._workers = workers
        self.most_s = most_s
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=name)
        self._queue: FairQueue[Work[Any]] = FairQueue(workers)
        self._depth = metrics.queue(name)
        self._most = most
        self._most_of_a_key = max(1, most // 2)
        #: What waits or is under way, and threads that work it off.
        self.count = self._busy = 0
        self._is_closed = False
        self._lock = Lock()

    async def run(self, action: Callable[..., T], *args: Any) -> T:
        """Run something and wait for it as long as the caller is there."""
        work: Work[T] = Work(partial(action, *args))
        self.add(work)
        try:
            return await while_connected(work)
        except BaseException:  # the caller has gone, or so has the task that waits
            work.give_up()
            raise

    def submit(self, action: Callable[..., T], *args: Any) -> Work[T]:
        """Run something, for the caller whose request this is and on its terms.

        What is cancelled before it begins gives its room to others.

        Raises
        ------
        OverloadedError
            As many as may wait already do.
        TooManyWaitingError
            As many of this key as may.
        """
        work = Work(partial(action, *args))
        self.add(work)
        return work

    def add(self, work: Work[Any]) -> None:
        """Take something in, as :meth:`submit`."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("The threads have ended.")
            refusal = self.refusal(work.caller)
            if refusal is not None:
                raise refusal
            work.pool = self
            self._queue.add(work.caller, work)
            self.count += 1
            begins = self._busy < self._workers
            self._busy += begins
        self._depth.inc()
        if begins:
            self._pool.submit(self._work_off)

    def refusal(self, caller: str) -> PerfModelError | None:
        """Return what :meth:`submit` would raise to a caller as things stand, or None."""
        if self.count >= self._most:
            return OverloadedError(
                f"{self.count} questions already wait for a capture or the model. Try again "
                "later, or state deadline_ms to be answered by the analytical model."
            )
        if caller in ("", GUEST):
            return None
        waiting = self._queue.open_of(caller)
        if waiting < self._most_of_a_key:
            return None
        return TooManyWaitingError(
            f"{waiting} questions of this key already wait. Let some be answered first, and "
            "try again."
        )

    def take_back(self, work: Work[Any]) -> bool:
        """Forget what waits; False where it has begun."""
        with self._lock:
            was_waiting = self._queue.remove(work.caller, work)
            self.count -= was_waiting
        if was_waiting:
            self._depth.dec()
        return was_waiting

    def close(self) -> None:
        """Let the threads end."""
        with self._lock:
            self._is_closed = True
            left = self._queue.clear()
            self.count -= len(left)
        for work in left:
            Future.cancel(work)
        self._depth.dec(len(left))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work_off(self) -> None:
        """Run what waits, one after the other, as long as there is anything for this thread."""
        while True:
            with self._lock:
                taken = self._queue.take()
                if taken is None:
                    self._busy -= 1
                    return
            caller, work = taken
            result = None
            failed: BaseException | None = None
            try:
                result = work.run(self._running, most_s=self.most_s)
            except StopIteration as error:
                # A coroutine that waits cannot be told of it, and would wait for ever.
                failed = RuntimeError("a StopIteration came out of the work")
                failed.__cause__ = error
            except BaseException as error:
                failed = error
            with self._lock:
                self._queue.done(caller)
                self.count -= 1
            self._depth.dec()
            self._settle(work, result, failed)
            # What failed holds this frame, which shall not hold it in turn.
            del taken, work, result, failed

    def _settle(self, work: Work[T], result: T, failed: BaseException | None) -> None:
        """Say what came of something, or have it run again where it may capture what it needs."""
        if isinstance(failed, CaptureNeededError) and self.beyond is not None:
            try:
                if work.is_wanted:
                    self.beyond.add(work)
                    return
                failed = AbandonedError("Nobody waits for it any more.")
            except (PerfModelError, RuntimeError) as refused:  # the latter once they are closed
                failed = refused
        if failed is None:
            work.set_result(result)
        else:
            work.set_exception(failed)


def note_failure(future: Future[Any]) -> None:
    """Log what went wrong with something that nobody waits for any more."""
    error = None if future.cancelled() else future.exception()
    if isinstance(error, PerfModelError | AbandonedError | asyncio.CancelledError):
        logger.debug("what went on in the background could not be answered: %s", error)
    elif error is not None:
        logger.error("what went on in the background failed", exc_info=error)

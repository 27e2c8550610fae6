"""Two lanes: threads that never wait for a capture, and threads for what has to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

from perfmodel.errors import PerfModelError
from perfmodel.estimator.jobs.capture_terms import CaptureNeededError, without_captures
from service.answering.thread_pool import ThreadPool

T = TypeVar("T")


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

"""Lanes of threads: one never waits for a graph, one for shipped ones alone, one for captures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from functools import partial
from typing import Any, NamedTuple, TypeVar

from perfmodel.errors import PerfModelError
from perfmodel.estimator.jobs.capture_terms import (
    CaptureNeededError,
    capturing_only,
    without_captures,
)
from perfmodel.estimator.jobs.demand import IS_WANTED, LOOK_S, AbandonedError
from perfmodel.graph.job import Job
from perfmodel.zoo.shipped.shipped_graphs import is_shipped
from service.answering.thread_pool import ThreadPool, while_wanted
from service.metrics.registry import Metrics

T = TypeVar("T")

#: Threads that answer. They hold one lock in turn, and the loop waits for it with them: two for one
#: caller, so that what is short passes what is long, and one that stays free for the next.
_ANSWERING = 3
#: Questions that wait for graphs while nobody waits for them, half of them of one key. One too many
#: is turned away and not the oldest: that is nearest to its end, and who asks again brings it up.
_MOST_UNATTENDED = 64


class Answer(Future[T]):
    """What comes of a question, in whichever lane.

    Attributes
    ----------
    is_wanted : bool
        Whether anybody waits for it; who comes for it again says so here.
    stage : Future or None
        The work on it in one lane.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_wanted = True
        self.stage: Future[T] | None = None

    def cancel(self) -> bool:
        """Say that nobody waits for it; returns False where it has begun.

        What waits for a capture then ends by itself; what computes goes on to its end.
        """
        self.is_wanted = False
        return self.stage is not None and self.stage.cancel()

    def settle(self, stage: Future[T]) -> None:
        """End as the work in the last lane did."""
        if stage.cancelled():
            super().cancel()
        elif self.set_running_or_notify_cancel():
            settle(self, stage)


class Lane(NamedTuple):
    """Threads, and how far they go with a question.

    Parameters
    ----------
    running : callable
        Runs something as far as it may capture here.
    """

    threads: ThreadPool
    running: Callable[..., Any]


class Lanes:
    """Runs everything in the first lane, and again in the next one what needs a graph from there.

    A question about known jobs, a list or an observation so never stands behind a capture, however
    many are asked for, and none that needs but a shipped graph behind others. What is run again
    has changed nothing before: jobs are captured before anything else is done with them.
    """

    def __init__(self, *lanes: Lane) -> None:
        self._lanes = lanes

    @property
    def quick(self) -> ThreadPool:
        """The first lane."""
        return self._lanes[0].threads

    @property
    def captures(self) -> ThreadPool:
        """The last lane."""
        return self._lanes[-1].threads

    @property
    def count(self) -> int:
        """What waits or is under way, in all lanes."""
        return sum(lane.threads.count for lane in self._lanes)

    async def run(self, action: Callable[..., T], *args: Any) -> T:
        """Run something and wait for it, as long as the caller is there."""
        return await while_wanted(self.submit(action, *args))

    async def run_as_capture(self, action: Callable[..., T], *args: Any) -> T:
        """Run something in the place of a capture, and wait for it as :meth:`run` does."""
        return await while_wanted(self._submit(partial(action, *args), self._lanes[-1:]))

    def submit(self, action: Callable[..., T], *args: Any) -> Answer[T]:
        """Run something; as :meth:`ThreadPool.submit`, whose errors the future may hold too."""
        return self._submit(partial(action, *args), self._lanes)

    def close(self) -> None:
        """Let the threads end."""
        for lane in self._lanes:
            lane.threads.close()

    def _submit(self, work: Callable[[], T], lanes: tuple[Lane, ...]) -> Answer[T]:
        answer: Answer[T] = Answer()
        context = copy_context()
        context.run(IS_WANTED.set, lambda: answer.is_wanted)
        self._begin(answer, context, work, lanes)
        return answer

    def _begin(
        self, answer: Answer[T], context: Context, work: Callable[[], T], lanes: tuple[Lane, ...]
    ) -> None:
        lane, *rest = lanes

        def pass_on(stage: Future[T]) -> None:
            if not isinstance(_error_of(stage), CaptureNeededError):
                answer.settle(stage)
                return
            try:
                self._begin(answer, context, work, tuple(rest))
            except (PerfModelError, RuntimeError) as refused:  # the latter once they are closed
                answer.set_exception(refused)

        answer.stage = context.run(lane.threads.submit, lane.running, work)
        answer.stage.add_done_callback(pass_on)
        if not answer.is_wanted:  # who cancelled it may have done so to its last stage
            answer.cancel()


def attended_lanes(metrics: Metrics, *, most: int, most_captures: int) -> Lanes:
    """Return the lanes of questions that somebody waits for.

    Parameters
    ----------
    most, most_captures : int
        What may wait for threads, and for graphs; for those each has a thread of its own.
    """
    graphs = {"workers": most_captures, "most": most_captures}
    return Lanes(
        Lane(ThreadPool("answer", metrics, workers=_ANSWERING, most=most), without_captures),
        Lane(ThreadPool("shipped", metrics, **graphs), partial(capturing_only, is_shipped)),
        Lane(ThreadPool("capture", metrics, **graphs), partial(capturing_only, _any)),
    )


def unattended_lanes(metrics: Metrics, attended: ThreadPool, *, places: int) -> Lanes:
    """Return the lanes of questions that wait for graphs, and nobody for them.

    Parameters
    ----------
    attended : ThreadPool
        Where captures are waited for: those here begin, and go on, while places are left.
    """
    one_by_one = {"workers": 1, "most": _MOST_UNATTENDED}

    def while_places_are_left(work: Callable[[], T]) -> T:
        is_wanted = IS_WANTED.get()
        IS_WANTED.set(lambda: is_wanted() and attended.count < places)
        while True:
            while attended.count >= places and is_wanted():
                time.sleep(LOOK_S)
            try:
                return work()
            except AbandonedError:  # crowded out, unless it was taken back
                if not is_wanted():
                    raise

    return Lanes(
        Lane(
            ThreadPool("background_shipped", metrics, **one_by_one),
            partial(capturing_only, is_shipped),
        ),
        Lane(ThreadPool("background_capture", metrics, **one_by_one), while_places_are_left),
    )


def _any(job: Job) -> bool:
    return True


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

"""Work on questions that nobody waits for any more, many at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, NamedTuple

from perfmodel.errors import PerfModelError
from perfmodel.estimator.jobs.capture_terms import (
    CaptureNeededError,
    terms_of_request,
    without_captures,
)
from service.access.callers import GUEST
from service.answering.lanes import Lanes
from service.answering.thread_pool import ThreadPool
from service.http.errors import OverloadedError

#: When the work on a question starts at the earliest: after its answer is on its way.
_AFTER_S = 0.002
#: How long one round is after the last. A model takes hardly longer for many questions than for
#: one, and who answers in a hurry meanwhile has to share the interpreter with it.
_EVERY_S = 0.5
#: Questions of one round.
_MOST = 1_024


class Preparation(NamedTuple):
    """What makes a question cheap if it is done for many at once.

    Parameters
    ----------
    prepare : callable
        Takes the questions; what is wrong with one is left to its answer to say.
    """

    prepare: Callable[[Sequence[Any]], None]
    question: Any


class _Work(NamedTuple):
    key: Hashable
    full: Callable[[], Any]
    preparation: Preparation | None
    future: Future[Any]
    #: Of the request that asked.
    context: Context
    caller: str


class BackgroundRounds:
    """Gathers questions and works on them in rounds; for one event loop.

    Parameters
    ----------
    threads : ThreadPool
        Where rounds are worked through; they wait for no graph.
    later : Lanes
        Where graphs are waited for.
    """

    def __init__(self, threads: ThreadPool, later: Lanes) -> None:
        self._threads = threads
        self._later = later
        self._waiting: dict[Hashable, _Work] = {}
        self._of_caller: Counter[str] = Counter()
        #: Questions that wait for graphs.
        self._for_graphs: dict[Hashable, Future[Any]] = {}
        self._begun_s = -_EVERY_S

    def add(
        self, key: Hashable, full: Callable[[], Any], preparation: Preparation | None
    ) -> Future[Any] | None:
        """Work on a question that is not waiting yet; None where there is no room for it.

        Of what may wait, one key brings half at most.
        """
        caller = terms_of_request().caller
        own = 0 if caller in ("", GUEST) else self._of_caller[caller]
        if len(self._waiting) >= _MOST or own >= _MOST // 2:
            return None
        if not self._waiting:
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time() + _AFTER_S, self._begun_s + _EVERY_S), self._begin)
        work = self._waiting[key] = _Work(key, full, preparation, Future(), copy_context(), caller)
        self._of_caller[caller] += 1
        return work.future

    def forget(self, key: Hashable) -> bool:
        """Take back a question; returns whether it is not being answered here.

        One that waits for a graph is: who asks for it otherwise shares its capture.
        """
        work, waits = self._waiting.pop(key, None), self._for_graphs.pop(key, None)
        if work is not None:
            self._of_caller[work.caller] -= 1
            work.future.cancel()
        if waits is not None:
            waits.cancel()
        return work is not None or waits is not None

    def _begin(self) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        self._of_caller.clear()
        if not waiting:
            return
        self._begun_s = asyncio.get_running_loop().time()
        begun = [work for work in waiting if work.future.set_running_or_notify_cancel()]
        try:
            self._threads.submit(self._work_through, begun)
        except (OverloadedError, RuntimeError) as error:  # the latter once they are closed
            for work in begun:
                work.future.set_exception(OverloadedError(str(error)))

    def _work_through(self, works: Sequence[_Work]) -> None:
        """Answer the questions of a round."""
        alike: dict[Callable[[Sequence[Any]], None], list[Any]] = {}
        for work in works:
            if work.preparation is not None:
                alike.setdefault(work.preparation.prepare, []).append(work.preparation.question)
        for prepare, questions in alike.items():
            # Whatever is wrong with one of them is found again, and told, where it is answered.
            with suppress(Exception):
                prepare(questions)
        for work in works:
            try:
                work.future.set_result(without_captures(work.full))
            except CaptureNeededError:
                self._wait_for_graph(work)
            except Exception as error:
                work.future.set_exception(error)

    def _wait_for_graph(self, work: _Work) -> None:
        try:
            answered = work.context.run(self._later.submit, work.full)
        except (PerfModelError, RuntimeError) as error:  # the latter once they are closed
            work.future.set_exception(error)
            return
        self._for_graphs[work.key] = answered

        def leave(done: Future[Any]) -> None:
            if self._for_graphs.get(work.key) is done:
                del self._for_graphs[work.key]
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            if error is None:
                work.future.set_result(done.result())
            else:
                work.future.set_exception(error)

        answered.add_done_callback(leave)

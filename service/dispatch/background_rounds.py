"""Work on questions that nobody waits for any more, many at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from perfmodel.errors import PerfModelError
from perfmodel.estimator.jobs.capture_terms import CaptureNeededError, without_captures
from service.access.access_policy import GUEST
from service.answering.lanes import Lanes
from service.answering.thread_pool import ThreadPool, Work
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
        self._waiting: dict[Work[Any], Preparation | None] = {}
        self._of_caller: Counter[str] = Counter()
        #: Questions that wait for graphs.
        self._for_graphs: set[Future[Any]] = set()
        self._begun_s = -_EVERY_S

    def add(self, full: Callable[[], Any], preparation: Preparation | None) -> Work[Any] | None:
        """Work on a question soon; None where there is no room for it.

        Of what may wait, one key brings half at most.
        """
        work = Work(full)
        own = 0 if work.caller in ("", GUEST) else self._of_caller[work.caller]
        if len(self._waiting) >= _MOST or own >= _MOST // 2:
            return None
        if not self._waiting:
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time() + _AFTER_S, self._begun_s + _EVERY_S), self._begin)
        self._waiting[work] = preparation
        self._of_caller[work.caller] += 1
        return work

    def forget(self, work: Future[Any]) -> bool:
        """Take back a question; returns whether it was here, and is not being answered.

        One that waits for a graph is taken back too: who asks for it otherwise shares its capture.
        """
        if work in self._for_graphs:
            work.cancel()
            return True
        if not isinstance(work, Work) or work not in self._waiting:
            return False
        del self._waiting[work]
        self._of_caller[work.caller] -= 1
        return Future.cancel(work)

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self._of_caller.clear()
        if not waiting:
            return
        self._begun_s = asyncio.get_running_loop().time()
        try:
            self._threads.submit(self._work_through, waiting)
        except (OverloadedError, RuntimeError) as error:  # the latter once they are closed
            for work in waiting:
                work.set_exception(OverloadedError(str(error)))

    def _work_through(self, works: Mapping[Work[Any], Preparation | None]) -> None:
        """Answer the questions of a round."""
        alike: dict[Callable[[Sequence[Any]], None], list[Any]] = {}
        for preparation in works.values():
            if preparation is not None:
                alike.setdefault(preparation.prepare, []).append(preparation.question)
        for prepare, questions in alike.items():
            # Whatever is wrong with one of them is found again, and told, where it is answered.
            with suppress(Exception):
                prepare(questions)
        for work in works:
            try:
                work.set_result(work.run(without_captures, most_s=self._threads.most_s))
            except CaptureNeededError:
                self._wait_for_graph(work)
            except Exception as error:
                work.set_exception(error)

    def _wait_for_graph(self, work: Work[Any]) -> None:
        # Who waited for it and went has not taken it back: nobody need wait for it here.
        work.is_wanted = True
        self._for_graphs.add(work)
        work.add_done_callback(self._for_graphs.discard)
        try:
            self._later.add(work)
        except (PerfModelError, RuntimeError) as error:  # the latter once they are closed
            work.set_exception(error)

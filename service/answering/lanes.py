"""Lanes of threads: one never waits for a graph, one for shipped ones alone, one for captures."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TypeVar

from perfmodel.estimator.jobs.capture_terms import (
    IS_WANTED,
    LOOK_S,
    AbandonedError,
    capturing_only,
    without_captures,
)
from perfmodel.zoo.shipped.shipped_graphs import is_shipped
from service.answering.thread_pool import ThreadPool
from service.metrics.registry import Metrics

T = TypeVar("T")

#: Threads that answer. They hold one lock in turn, and the loop waits for it with them: two for one
#: caller, so that what is short passes what is long, and one that stays free for the next.
_ANSWERING = 3
#: Questions that wait for graphs while nobody waits for them, half of them of one key. One too many
#: is turned away and not the oldest: that is nearest to its end, and who asks again brings it up.
_MOST_UNATTENDED = 64

#: Runs something that may capture what is shipped and nothing else.
_shipped_alone = partial(capturing_only, is_shipped)


class Lanes:
    """Runs everything in the first lane, and again in the next one what needs a graph from there.

    A question about known jobs, a list or an observation so never stands behind a capture, however
    many are asked for, and none that needs but a shipped graph behind others. What is run again
    has changed nothing before: jobs are captured before anything else is done with them.
    """

    def __init__(self, first: ThreadPool) -> None:
        self._lanes = [first]
        while (beyond := self._lanes[-1].beyond) is not None:
            self._lanes.append(beyond)
        #: As those of the first lane.
        self.run, self.submit, self.add, self.refusal = (
            first.run, first.submit, first.add, first.refusal
        )  # fmt: skip
        #: Where captures are waited for.
        self.captures = self._lanes[-1]

    @property
    def count(self) -> int:
        """What waits or is under way, in all lanes."""
        return sum(lane.count for lane in self._lanes)

    def close(self) -> None:
        """Let the threads end."""
        for lane in self._lanes:
            lane.close()


def attended_lanes(
    metrics: Metrics, *, most: int, most_captures: int, most_s: float = inf
) -> Lanes:
    """Return the lanes of questions that somebody waits for.

    Parameters
    ----------
    most, most_captures : int
        What may wait for threads, and for graphs; for those each has a thread of its own.
    most_s : float
        Processor time that one question may take, seconds.
    """
    pool = partial(
        ThreadPool, metrics=metrics, workers=most_captures, most=most_captures, most_s=most_s
    )
    captures = pool("capture")
    shipped = pool("shipped", running=_shipped_alone, beyond=captures)
    return Lanes(
        ThreadPool(
            "answer", metrics, workers=_ANSWERING, most=most, most_s=most_s,
            running=without_captures, beyond=shipped,
        )
    )  # fmt: skip


def unattended_lanes(
    metrics: Metrics, attended: ThreadPool, *, places: int, most_s: float = inf
) -> Lanes:
    """Return the lanes of questions that wait for graphs, and nobody for them.

    Parameters
    ----------
    attended : ThreadPool
        Where captures are waited for: those here begin, and go on, while places are left.
    """
    pool = partial(ThreadPool, metrics=metrics, workers=1, most=_MOST_UNATTENDED, most_s=most_s)

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

    captures = pool("background_capture", running=while_places_are_left)
    return Lanes(pool("background_shipped", running=_shipped_alone, beyond=captures))

"""A few processes that capture, callers in turn, each capture on a budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple
from typing import NamedTuple

from perfmodel.errors import CaptureBudgetError
from perfmodel.estimator.captures.capture_child import CaptureChild, Captured
from perfmodel.estimator.captures.turns import Turns
from perfmodel.estimator.jobs.capture_terms import IS_WANTED, CaptureBudget, terms_of_request
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.zoo.resolve import check_job
from perfmodel.zoo.shipped.shipped_graphs import is_shipped
from perfmodel.zoo.size_check import check_size

#: How long it is remembered that a capture took more than its budget, seconds: who asks for it
#: again at once would hold a process for as long again.
_REMEMBERED_S = 300.0
#: How long a capture that nobody waits for goes on though others wait for its place, seconds: most
#: end by then, and the process that takes the place of one that is ended loads libraries as long.
_WORTH_A_START_S = 5.0


class _Exceeded(NamedTuple):
    budget: CaptureBudget
    error: CaptureBudgetError
    until_s: float


class CapturePool:
    """Captures jobs in a few child processes, started when first needed.

    Graphs that are shipped are derived in a process of their own, which needs no PyTorch, so that
    none stands behind a capture. A capture that nobody waits for any more goes on for as long as
    starting another process would take, and then until somebody waits for its place.

    Parameters
    ----------
    turns : Turns
        Whose turn it is; one process for each of its places.
    most : CaptureBudget
        What a capture may take, unless its request states less.
    """

    def __init__(self, turns: Turns, *, most: CaptureBudget | None = None) -> None:
        self.most = most or CaptureBudget()
        self._capturing = _Children(turns)
        self._deriving = _Children(Turns(1, most_wait_s=turns.most_wait_s))
        self._exceeded: LruCache[str, _Exceeded] = LruCache(1_024)

    def __call__(self, job: Job) -> CapturedStep:
        """Capture a job on the terms of the request that is being answered.

        Raises
        ------
        BusyError
            No process was free in time.
        InvalidInputError
            As :meth:`check`.
        CaptureBudgetError
            It takes more than its budget, or did so a little while ago.
        AbandonedError
            Nobody waits for it any more.
        """
        self.check(job)
        terms = terms_of_request()
        budget = self.most.at_most(terms.budget)
        reference = job.reference
        self._refuse_again(reference, budget)
        children = self._deriving if is_shipped(job) else self._capturing
        try:
            step, use = children.capture(job, budget, terms.caller)
        except CaptureBudgetError as error:
            until_s = time.monotonic() + _REMEMBERED_S
            self._exceeded.put(reference, _Exceeded(budget, error, until_s))
            raise
        terms.uses.append(use)
        return step

    def check(self, job: Job) -> None:
        """Refuse a job that cannot be captured, by what it says, on the terms of its request.

        Raises
        ------
        InvalidInputError
            Its fields contradict each other, no model has its name, or its model is too large.
        """
        check_job(job)
        check_size(job, most_nodes=self.most.at_most(terms_of_request().budget).nodes)

    def close(self) -> None:
        """End the children."""
        self._capturing.close()
        self._deriving.close()

    def _refuse_again(self, reference: str, budget: CaptureBudget) -> None:
        known = self._exceeded.get(reference)
        if known is None or time.monotonic() > known.until_s:
            return
        if all(
            wants <= had for wants, had in zip(astuple(budget), astuple(known.budget), strict=True)
        ):
            raise CaptureBudgetError(
                f"{known.error.message} (It was tried lately.)", pointer=known.error.pointer
            )


class _Children:
    """Processes that are taken in turns."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._children = [CaptureChild() for _ in range(turns.places)]

    def capture(self, job: Job, budget: CaptureBudget, caller: str) -> Captured:
        with self._turns.turn(caller) as place:
            return self._children[place].capture(job, budget, self._goes_on())

    def close(self) -> None:
        for child in self._children:
            child.close()

    def _goes_on(self) -> Callable[[], bool]:
        is_wanted, worth_s = IS_WANTED.get(), time.monotonic() + _WORTH_A_START_S
        return lambda: is_wanted() or not self._turns.has_waiting or time.monotonic() < worth_s

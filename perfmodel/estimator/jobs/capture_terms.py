"""On which terms a request captures: for whom, what it may take, whether it may wait at all.

And whether anybody still waits for what a thread works on, and it may go on.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any, Self, TypeVar

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.json_values import shown

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureBudget:
    """What one capture may take.

    Parameters
    ----------
    time_s : float
        Seconds, from when the libraries are loaded.
    memory_bytes : int
        Beyond what the process holds before it begins.
    nodes : int
        Operators of the graph.
    """

    time_s: float = 60.0
    memory_bytes: int = 4 * 1024**3
    nodes: int = 1_000_000

    def narrowed(self, stated: str) -> Self:
        """Return this budget with what a request states of it.

        Parameters
        ----------
        stated : str
            Amounts with commas between them: ``"time_s=5, nodes=20000"``.

        Raises
        ------
        InvalidInputError
            No such amounts, or more than this budget holds.

        Examples
        --------
        >>> CaptureBudget(time_s=60.0).narrowed("time_s=5, nodes=20000").time_s
        5.0
        """
        read: dict[str, Any] = dict(_amount(part) for part in stated.split(","))
        for name, value in read.items():
            if value > getattr(self, name):
                raise InvalidInputError(
                    f"A capture may take {name}={getattr(self, name):g} here at most; got "
                    f"{value:g}. State less, or have the operator of the service allow more."
                )
        return dataclasses.replace(self, **read)

    def at_most(self, other: CaptureBudget | None) -> Self:
        """Return the smaller one of each amount of this and another budget."""
        if other is None:
            return self
        least = {n: min(getattr(self, n), getattr(other, n)) for n in _BUDGET_FIELDS}
        return dataclasses.replace(self, **least)


_BUDGET_FIELDS = tuple(each.name for each in dataclasses.fields(CaptureBudget))


def _amount(written: str) -> tuple[str, float | int]:
    name, _, text = written.strip().partition("=")
    amount = float(text) if _NUMBER.fullmatch(text) else 0.0
    if name not in _BUDGET_FIELDS or not 0 < amount < _MOST:
        raise InvalidInputError(
            f"A budget of captures states {', '.join(f'{n}=NUMBER' for n in _BUDGET_FIELDS)}, "
            f"each above 0, with commas between; got {shown(written)}."
        )
    return name, amount if name == "time_s" else max(1, int(amount))


_NUMBER = re.compile(r"\d{1,15}(\.\d{1,9})?", re.ASCII)
_MOST = 2.0**50


@dataclass(frozen=True, kw_only=True, slots=True)
class CaptureUse:
    """What one capture took, in the terms of its budget."""

    time_s: float
    memory_bytes: int
    nodes: int


@dataclass(kw_only=True, slots=True)
class CaptureTerms:
    """On which terms one request captures.

    Parameters
    ----------
    caller : str
        Whose request it is; ``""`` where nobody asked for it.
    budget : CaptureBudget or None
        What each of its captures may take, where it says so.
    """

    caller: str = ""
    budget: CaptureBudget | None = None
    #: What its captures took so far, in their order.
    uses: list[CaptureUse] = field(default_factory=list)


#: Terms of the request that is being answered, entered where it comes in.
TERMS: ContextVar[CaptureTerms | None] = ContextVar("capture_terms", default=None)
#: Tells which jobs may be captured where something is done.
_MAY_CAPTURE: ContextVar[Callable[[Job], bool]] = ContextVar(
    "may_capture", default=lambda job: True
)


class CaptureNeededError(Exception):
    """A job has to be captured where nobody may wait for that; to be done again where one may."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.label} is not captured yet.")


def terms_of_request() -> CaptureTerms:
    """Return the terms of the request that is being answered; those of nobody outside of one."""
    return TERMS.get() or CaptureTerms()


def capturing_only(may_capture: Callable[[Job], bool], action: Callable[..., T], *args: Any) -> T:
    """Do something that may capture some jobs and no others.

    Raises
    ------
    CaptureNeededError
        It cannot be done without another.
    """
    token = _MAY_CAPTURE.set(may_capture)
    try:
        return action(*args)
    finally:
        _MAY_CAPTURE.reset(token)


#: Does something that may not capture at all.
without_captures = partial(capturing_only, lambda job: False)


def refuse_capture_here(job: Job) -> None:
    """Refuse to capture a job where nobody may wait for that."""
    if not _MAY_CAPTURE.get()(job):
        raise CaptureNeededError(job)


#: How often whoever waits in a thread looks whether anybody wants what it waits for, seconds.
LOOK_S = 0.25


class AbandonedError(Exception):
    """Nobody waits any more for what had not begun, or for what stood in others' way."""


#: Tells whether anybody waits for what is worked on; entered where it is taken in.
IS_WANTED: ContextVar[Callable[[], bool]] = ContextVar("is_wanted", default=lambda: True)


class TooMuchWorkError(Exception):
    """What is worked on has computed for longer than it may."""


#: Does nothing, or raises where what is worked on shall end; entered by whoever runs it.
GOES_ON: ContextVar[Callable[[], None]] = ContextVar("goes_on", default=lambda: None)


def go_on() -> None:
    """Go on with what may take long; called between its parts, outside of all locks.

    Raises
    ------
    AbandonedError
        Nobody waits for it any more.
    TooMuchWorkError
        It has computed for longer than it may.
    """
    GOES_ON.get()()


def wanted_within(event: Event, timeout_s: float | None = None) -> bool:
    """Wait for an event as long as anybody wants what follows; returns whether it came.

    Raises
    ------
    AbandonedError
        Nobody does any more.
    """
    is_wanted, end_s = IS_WANTED.get(), None
    if timeout_s is not None:
        end_s = time.monotonic() + timeout_s
    while is_wanted():
        left_s = LOOK_S if end_s is None else min(LOOK_S, end_s - time.monotonic())
        if event.wait(max(0.0, left_s)):
            return True
        if end_s is not None and time.monotonic() >= end_s:
            return False
    raise AbandonedError("Nobody waits for it any more.")

"""On which terms a request captures: for whom, what it may take, whether it may wait at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from perfmodel.errors import InvalidInputError
from perfmodel.graph.job import Job
from perfmodel.graph.json_values import as_count, as_number, as_object, refuse_unknown

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

    def narrowed(self, stated: object, pointer: str = "/capture_budget") -> Self:
        """Return this budget with what a request states of it, as decoded from JSON.

        Raises
        ------
        InvalidInputError
            What no budget has, or more than this one holds; ``pointer`` says which.

        Examples
        --------
        >>> CaptureBudget(time_s=60.0).narrowed({"time_s": 5}).time_s
        5.0
        """
        fields = as_object(stated, pointer, what="capture_budget")
        refuse_unknown(fields, _BUDGET_FIELDS, pointer)
        given = {name: value for name, value in fields.items() if value is not None}
        read = {name: _amount(name, value, f"{pointer}/{name}") for name, value in given.items()}
        for name, value in read.items():
            if value > getattr(self, name):
                raise InvalidInputError(
                    f"{name} of capture_budget is at most {getattr(self, name):g} here; got "
                    f"{value:g}. State less, or have the operator of the service allow more.",
                    pointer=f"{pointer}/{name}",
                )
        return dataclasses.replace(self, **read)


_BUDGET_FIELDS = tuple(each.name for each in dataclasses.fields(CaptureBudget))


def _amount(name: str, value: object, pointer: str) -> Any:
    if name == "nodes":
        return as_count(name, value, pointer)
    amount = as_number(name, value, pointer)
    return amount if name == "time_s" else int(amount)


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
    budget : mapping or None
        What of a budget the request states, as decoded from JSON; None: nothing.
    """

    caller: str = ""
    budget: object = None
    #: What its captures took so far, in their order.
    uses: list[CaptureUse] = field(default_factory=list)


_TERMS: ContextVar[CaptureTerms | None] = ContextVar("capture_terms", default=None)
_MAY_CAPTURE: ContextVar[bool] = ContextVar("may_capture", default=True)


class CaptureNeededError(Exception):
    """A job has to be captured where nobody may wait for that; to be done again where one may."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"{job.label} is not captured yet.")


def terms_of_request() -> CaptureTerms:
    """Return the terms of the request that is being answered; those of nobody outside of one."""
    return _TERMS.get() or CaptureTerms()


def enter_terms(terms: CaptureTerms) -> None:
    """Let some terms hold for the rest of this request."""
    _TERMS.set(terms)


def without_captures(action: Callable[..., T], *args: Any) -> T:
    """Do something that may not capture.

    Raises
    ------
    CaptureNeededError
        It cannot be done without.
    """
    token = _MAY_CAPTURE.set(False)
    try:
        return action(*args)
    finally:
        _MAY_CAPTURE.reset(token)


def refuse_capture_here(job: Job) -> None:
    """Refuse to capture a job where nobody may wait for that."""
    if not _MAY_CAPTURE.get():
        raise CaptureNeededError(job)

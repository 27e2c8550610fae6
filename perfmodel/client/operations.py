"""Requests that are answered later, as calls: begun now, waited for when there is time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from perfmodel.client.errors import TimedOutError
from perfmodel.client.messages import Call, Page, Task, Wait, quoted
from perfmodel.client.records import Operation

T = TypeVar("T")

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Begun(Generic[T]):
    """A call whose answer is to come.

    Parameters
    ----------
    operation : Operation
        As it was when it was begun.
    call : Call
        What was asked.
    """

    operation: Operation
    call: Call[T]


def begin(call: Call[T]) -> Task[Begun[T]]:
    """Let the service register a job or a graph, or answer a matrix, while nobody waits.

    Parameters
    ----------
    call : Call
        Such as ``questions.matrix(jobs, placements)`` or ``keeping.register_job(job)``.
    """
    later = replace(
        call, kind=Operation, tagged=False, headers={**call.headers, "Prefer": "respond-async"}
    )
    operation: Operation = yield later
    return Begun(operation=operation, call=call)


def wait(begun: Begun[T], *, timeout_s: float = 600.0) -> Task[T]:
    """Wait for the answer of a call that was begun.

    Raises
    ------
    TimedOutError
        It has not ended by then; it can be waited for again.
    ProblemError
        It failed.
    """
    return _wait(begun, timeout_s, time.monotonic)


def _wait(begun: Begun[T], timeout_s: float, clock: Callable[[], float]) -> Task[T]:
    until = clock() + timeout_s
    now, pause_s = begun.operation, _FIRST_WAIT_S
    while not now.has_ended:
        if clock() + pause_s > until:
            raise TimedOutError(f"Operation {now.id} is {now.state} after {timeout_s:g} s.")
        yield Wait(seconds=pause_s)
        pause_s = min(2 * pause_s, _LONGEST_WAIT_S)
        now = yield operation(now.id)
    # A failed one answers with its problem here, as the request itself would have.
    answer: T = yield replace(
        begun.call,
        method="GET",
        path=f"/v1/operations/{quoted(now.id)}/result",
        body=None,
        query={},
        tagged=False,
    )
    return answer


def operation(id: str) -> Call[Operation]:
    """Return how far an operation is."""
    return Call(method="GET", path=f"/v1/operations/{quoted(id)}", kind=Operation)


def operations(
    *,
    state: str | None = None,
    kind: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[Operation]]:
    """List operations, newest first, ``limit`` at a time."""
    return Call(
        method="GET",
        path="/v1/operations",
        kind=Operation,
        listed="operations",
        query={"state": state, "kind": kind, "limit": limit, "cursor": cursor},
        large=True,
    )


def remove_operation(id: str) -> Call[bool]:
    """Stop and forget an operation; tells whether there was one."""
    return Call(
        method="DELETE",
        path=f"/v1/operations/{quoted(id)}",
        kind=bool,
        meaning={204: True, 404: False},
    )

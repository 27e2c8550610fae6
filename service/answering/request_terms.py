"""What the work on a request goes by: whose it is, what it may capture, whether anybody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perfmodel.errors import InvalidInputError
from perfmodel.estimator.jobs.capture_terms import TERMS, CaptureBudget, CaptureTerms, CaptureUse
from service.http.bodies import header_of
from service.http.errors import problem_of, problem_response

T = TypeVar("T")

#: Names what captures took, as a list of structured fields (RFC 8941).
HEADER = b"perfmodel-captured"

#: States what each capture of a request may take: ``time_s=5, nodes=20000, memory_bytes=1000000``.
BUDGET = b"perfmodel-capture-budget"

#: Captures that are told one by one; of more, the last ones.
_MOST_TOLD = 16

#: The task of the request that is being answered, and what tells that its caller has gone.
_CALLER: ContextVar[tuple[Any, Receive] | None] = ContextVar("caller", default=None)


class RequestTerms:
    """ASGI middleware: the terms of a request on its way in, what was captured on its way out.

    Stands behind access, which says whose request it is. Whether its caller has gone is looked for
    only while something is waited for, by which time the body is read. ``GET`` asks for what is
    short, and for streams of events, which notice by themselves.

    Parameters
    ----------
    most : CaptureBudget
        What a capture may take; a request may state less.
    """

    def __init__(self, app: ASGIApp, *, most: CaptureBudget) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        stated = header_of(scope, BUDGET)
        try:
            budget = None if stated is None else self._most.narrowed(stated.decode("latin-1"))
        except InvalidInputError as error:
            await problem_response(problem_of(error))(scope, receive, send)
            return
        terms = CaptureTerms(caller=scope.get("caller") or "", budget=budget)
        TERMS.set(terms)

        async def telling(message: Message) -> None:
            if terms.uses and message["type"] == "http.response.start":
                told = (HEADER, told_uses(terms.uses).encode())
                message["headers"] = [*message["headers"], told]
            await send(message)

        token = _CALLER.set((asyncio.current_task(), receive))
        try:
            await self._app(scope, receive, telling)
        finally:
            _CALLER.reset(token)


def told_uses(uses: Sequence[CaptureUse]) -> str:
    """Write down what captures took, the last ones if there were many.

    Examples
    --------
    >>> told_uses([CaptureUse(time_s=0.4182, memory_bytes=1_048_576, nodes=612)])
    '1;time_s=0.418;memory_bytes=1048576;nodes=612'
    """
    first = max(0, len(uses) - _MOST_TOLD)
    return ", ".join(
        f"{number};time_s={use.time_s:.3f};memory_bytes={use.memory_bytes};nodes={use.nodes}"
        for number, use in enumerate(uses[first:], first + 1)
    )


async def while_connected(work: Future[T], timeout_s: float | None = None) -> T:
    """Wait for work as long as the caller of this request is there; it goes on either way.

    Tasks that outlive the request which began them wait on.

    Raises
    ------
    TimeoutError
        It did not come in time.
    ClientDisconnect
        The caller has gone.
    """
    answer = asyncio.wrap_future(work)
    # Nobody asks after what fails later.
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())
    task, receive = _CALLER.get() or (None, None)
    gone = None
    if receive is not None and task is asyncio.current_task():
        gone = asyncio.ensure_future(_hung_up(receive))
    ends: set[asyncio.Future[Any]] = {answer} if gone is None else {answer, gone}
    try:
        await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if gone is not None and gone.done():
            raise ClientDisconnect
        raise TimeoutError
    finally:
        if gone is not None:
            gone.cancel()


async def _hung_up(receive: Receive) -> None:
    """Return as soon as the caller has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass

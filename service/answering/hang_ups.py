"""Callers who hang up while their question waits: nobody waits for it any more."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

T = TypeVar("T")


class NoticesHangUps:
    """ASGI middleware: lets whoever waits for an answer know that its caller has gone.

    It is looked for only while something is waited for, by which time the body is read. ``GET``
    asks for what is short, and for streams of events, which notice by themselves.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] == "GET":
            await self._app(scope, receive, send)
            return
        caller = _Caller(receive)
        token = _CALLER.set(caller)
        try:
            await self._app(scope, receive, send)
        finally:
            _CALLER.reset(token)
            caller.close()


class _Caller:
    """Who waits for the answer to one request."""

    def __init__(self, receive: Receive) -> None:
        self.task = asyncio.current_task()
        self._receive = receive
        self._gone: asyncio.Task[None] | None = None

    def gone(self) -> asyncio.Task[None]:
        """Return what is done as soon as the caller has gone."""
        if self._gone is None:
            self._gone = asyncio.ensure_future(self._listen())
        return self._gone

    def close(self) -> None:
        """Listen no longer."""
        if self._gone is not None:
            self._gone.cancel()

    async def _listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


_CALLER: ContextVar[_Caller | None] = ContextVar("caller", default=None)


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
    gone = _gone()
    ends: set[asyncio.Future[Any]] = {answer, *gone}
    await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    if answer.done():
        return answer.result()
    if any(task.done() for task in gone):
        raise ClientDisconnect
    raise TimeoutError


def _gone() -> list[asyncio.Task[None]]:
    """Return what is done as soon as the caller has gone, where this task is its request."""
    caller = _CALLER.get()
    return [caller.gone()] if caller and caller.task is asyncio.current_task() else []

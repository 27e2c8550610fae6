"""Let health pass, however many connections ask for other things at once."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

#: What never waits.
_FIRST = "/v2/health/"


class TakesTurns:
    """ASGI middleware: few requests begin in one turn of the loop, the others in the next ones.

    A turn of the loop reads what has come in on every connection and then works all of it off. With
    hundreds of connections what comes in meanwhile, health among it, waits for hundreds of answers.
    Here the others wait in line instead, and between two turns the loop reads again. Who comes
    while nobody waits goes on at once.

    Parameters
    ----------
    most : int
        Requests that begin in one turn.
    """

    def __init__(self, app: ASGIApp, *, most: int = 16) -> None:
        self._app = app
        self._most = most
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when it is its turn."""
        if scope["type"] == "http" and not scope["path"].startswith(_FIRST):
            loop = asyncio.get_running_loop()
            if self._waiting or self._begun >= self._most:
                turn: asyncio.Future[None] = loop.create_future()
                self._waiting.append(turn)
                await turn
            else:
                if not self._begun:
                    loop.call_soon(self._next)
                self._begun += 1
        await self._app(scope, receive, send)

    def _next(self) -> None:
        """Let those begin who are next, in a new turn."""
        self._begun = 0
        while self._waiting and self._begun < self._most:
            turn = self._waiting.popleft()
            if not turn.done():  # its caller may have gone
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next)

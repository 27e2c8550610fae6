"""Stand around every request: its turn, its identifier, its count, its line in the log, its end."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import re
from collections import deque
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.draining import Draining
from service.http.errors import defect_problem, problem_response
from service.http.logs import request_id_of_context
from service.metrics.registry import Metrics

logger = logging.getLogger("perfmodel.request")

_HEADER = b"x-request-id"
_ACCEPTED = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")

#: What is counted where no route was matched: unknown paths, refusals, files.
UNMATCHED = "other"

#: Methods that are counted by name; anybody can make up others.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


#: What never waits for its turn.
_FIRST = "/v2/health/"

_CLOSE = (b"connection", b"close")


class RequestMonitor:
    """ASGI middleware around all others: what becomes of every request, refused ones too.

    **Its turn.** A turn of the loop reads what has come in on every connection and then works all
    of it off. With hundreds of connections what comes in meanwhile, health among it, waits for
    hundreds of answers. Here few requests begin in one turn, the others wait in line, and between
    two turns the loop reads again. Who comes while nobody waits goes on at once.

    **Its identifier.** What a caller sends as ``X-Request-ID`` is kept if it is made of up to 128
    harmless characters, else a new one is made; the answer carries it, and so does every line that
    the log gets meanwhile.

    **Its end.** While the process is about to end, each answer closes its connection.

    Parameters
    ----------
    log : str
        ``"all"``, ``"none"``, or ``"problems"``: 401, 403, 429, 5xx and what takes longer than
        ``slow_s``.
    most : int
        Requests that begin in one turn.
    """

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, draining: Draining,
        log: str = "problems", slow_s: float = 1.0, most: int = 16,
    ) -> None:  # fmt: skip
        self._app = app
        self._metrics = metrics
        self._draining = draining
        self._log = log
        self._slow_s = slow_s
        self._most = most
        self._begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Unique in a process by counting, among processes by chance.
        self._prefix = os.urandom(6).hex()
        self._numbers = itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when it is its turn, and watch its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        for name, value in scope["headers"]:
            if name == _HEADER and _ACCEPTED.fullmatch(value):
                request_id = bytes(value)
                break
        else:
            request_id = f"{self._prefix}-{next(self._numbers):x}".encode()
        scope["request_id"] = request_id.decode()
        status = 0
        # What came in before the end began is told by the next answer, or by the server at last.
        said = [(_HEADER, request_id), *([_CLOSE] if self._draining.has_begun else ())]

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *said]
                self._note(scope, status, perf_counter() - began)
            await send(message)

        # Never taken back: a request has a task of its own, and what stands further out and writes
        # the traceback of an error shall name it too.
        request_id_of_context.set(scope["request_id"])
        try:
            if not scope["path"].startswith(_FIRST):
                if self._waiting or self._begun >= self._most:
                    self._waiting.append(turn := asyncio.get_running_loop().create_future())
                    await turn
                else:
                    if not self._begun:
                        asyncio.get_running_loop().call_soon(self._begin_next)
                    self._begun += 1
            await self._app(scope, receive, noting)
        except Exception:
            # Answered here, since nobody further out knows the identifier of the request.
            if not status:
                await problem_response(defect_problem())(scope, receive, noting)
            raise

    def _begin_next(self) -> None:
        """Let those begin who are next, in a new turn."""
        self._begun = 0
        while self._waiting and self._begun < self._most:
            turn = self._waiting.popleft()
            if not turn.done():  # its caller may have gone
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._begin_next)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        # The pattern of the route, not the path: callers make up paths, and labels last for good.
        route = getattr(scope.get("route"), "path", UNMATCHED)
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        self._metrics.request(route, method, status, seconds)
        wrong = status >= 500 or status in (401, 403, 429) or seconds > self._slow_s
        if self._log == "all" or (wrong and self._log == "problems"):
            self._write(scope, status, seconds)

    def _write(self, scope: Scope, status: int, seconds: float) -> None:
        level = logging.WARNING if status >= 500 else logging.INFO
        facts = {
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 6),
            "client": (scope.get("client") or (None,))[0],
            "caller": scope.get("caller") or None,
        }
        said = (scope["method"], scope["path"], status)
        logger.log(level, "%s %s %d", *said, extra={"facts": facts})

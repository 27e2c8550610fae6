"""Health on a port, a thread and a loop of its own, where no question is in front of it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.http.connections import parser

logger = logging.getLogger(__name__)

#: How often the loop of the service shows that it turns, and how long it may not, seconds.
_BEAT_S = 0.5
_STUCK_S = 30.0


class HealthServer:
    """Answers ``/v2/health/live`` and ``/v2/health/ready`` as the service does, however busy it is.

    Parameters
    ----------
    port : int
        0: none; health is answered where everything else is.
    problems : callable
        What is wrong; None where the service is about to end.
    """

    def __init__(self, host: str, port: int, problems: Callable[[], Sequence[str] | None]) -> None:
        self._problems = problems
        self._beat_at = time.monotonic()
        routes = [
            Route("/v2/health/live", self._live),
            Route("/v2/health/ready", self._ready),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes), host=host, port=port, log_level="warning",
            access_log=False, server_header=False, lifespan="off", ws="none", loop="asyncio",
            http=parser(),
        )  # fmt: skip
        self._server = uvicorn.Server(config) if port else None
        self._beats: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, from within the loop of the service."""
        if self._server is None:
            return
        self._beats = asyncio.get_running_loop().create_task(self._beat())
        threading.Thread(target=self._run, name="health", daemon=True).start()

    def stop(self) -> None:
        """End."""
        if self._server is not None:
            self._server.should_exit = True
        if self._beats is not None:
            self._beats.cancel()

    def _run(self) -> None:
        assert self._server is not None
        try:
            self._server.run()
        except SystemExit:
            # With several workers the first one has the port, and answers for the host.
            logger.info("the port for health is taken")

    async def _beat(self) -> None:
        while True:
            self._beat_at = time.monotonic()
            await asyncio.sleep(_BEAT_S)

    async def _live(self, request: Request) -> Response:
        silent_s = time.monotonic() - self._beat_at
        if silent_s > _STUCK_S:
            said = [f"The loop has not turned for {silent_s:.0f} s."]
            return _answer(503, "stuck", said)
        return _answer(200, "live", [])

    async def _ready(self, request: Request) -> Response:
        problems = self._problems()
        if problems is None:
            return _answer(503, "ending", [])
        return _answer(200, "degraded" if problems else "ready", list(problems))


def _answer(status: int, word: str, detail: list[str]) -> Response:
    content = orjson.dumps({"status": word, "detail": detail})
    return Response(content, status_code=status, media_type="application/json")

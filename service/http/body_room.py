"""How many bytes of bodies may be under way at a time."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http.bodies import header_of
from service.http.errors import http_problem, problem_response

#: Bodies up to this size always find room: questions about one job on one placement.
SMALL_BYTES = 64 * 1024

#: How much larger than its packed form JSON is taken to be; a length of so few digits is that of a
#: small body either way.
_UNPACKED, _SHORT = 32, 4


class BodyRoom:
    """ASGI middleware: 503 where large bodies are under way already, 429 where they are the key's.

    Decoded, a body takes some ten times its size, and it stays until its answer is there. A body
    without a stated length counts as the largest that its path takes. One always finds room where
    there is no other; one key has half of it while others send too.

    Parameters
    ----------
    most_bytes : int
        Of all large bodies together.
    limit_bytes, limits_bytes : int, mapping of str to int
        The largest body, of most paths and of some.
    """

    def __init__(
        self, app: ASGIApp, *, most_bytes: int, limit_bytes: int, limits_bytes: Mapping[str, int]
    ) -> None:
        self._app = app
        self._most = most_bytes
        self._limit = limit_bytes
        self._limits = limits_bytes
        self._held: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or turn it away."""
        size = self._size_of(scope)
        if size <= SMALL_BYTES:
            await self._app(scope, receive, send)
            return
        caller = str(scope.get("caller") or "")
        status = self._refusal(caller, size)
        if status is not None:
            content = http_problem(
                status, f"{sum(self._held.values())} bytes of bodies are being answered already, "
                f"at most {self._most} at a time. Send this one a little later.",
            )  # fmt: skip
            response = problem_response(content, {"Connection": "close"})
            await response(scope, receive, send)
            return
        self._held[caller] = self._held.get(caller, 0) + size
        try:
            await self._app(scope, receive, send)
        finally:
            self._held[caller] -= size
            if not self._held[caller]:
                del self._held[caller]

    def _size_of(self, scope: Scope) -> int:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            return 0
        stated = header_of(scope, b"content-length")
        if stated is not None and len(stated) < _SHORT:
            return 0  # however well it is packed
        limit = self._limits.get(scope["path"], self._limit)
        packed = header_of(scope, b"content-encoding")
        if stated is None or not stated.isdigit():
            return limit if header_of(scope, b"transfer-encoding") else 0
        return min(int(stated) * (_UNPACKED if packed else 1), limit)

    def _refusal(self, caller: str, size: int) -> HTTPStatus | None:
        held = sum(self._held.values())
        if held and held + size > self._most:
            return HTTPStatus.SERVICE_UNAVAILABLE
        others = held - self._held.get(caller, 0)
        if others and self._held.get(caller, 0) + size > self._most // 2:
            return HTTPStatus.TOO_MANY_REQUESTS
        return None

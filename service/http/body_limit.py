"""Refuse bodies that are too large, before they are in memory."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.bodies import header_of
from service.http.errors import body_too_large, problem_response


class BodyLimit:
    """ASGI middleware: 413 for a body above the limit of its path.

    A body that states its length is refused unread; one that does not is cut off while it is
    read.

    Parameters
    ----------
    limit_bytes : int
        For every path that has no limit of its own.
    limits_bytes : mapping of str to int
        By exact path.
    """

    def __init__(self, app: ASGIApp, *, limit_bytes: int, limits_bytes: Mapping[str, int]) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._limits_bytes = dict(limits_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        limit = self._limits_bytes.get(scope["path"], self._limit_bytes)
        stated = header_of(scope, b"content-length") or b""
        if stated.isdigit() and int(stated) > limit:
            response = problem_response(body_too_large(limit), {"Connection": "close"})
            await response(scope, receive, send)
            return
        # A stated length is what the server hands on; only an unstated one has to be counted.
        await self._app(scope, receive if stated else _counted(receive, limit), send)


def _counted(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def counting() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, body_too_large(limit)["detail"]
            )
        return message

    return counting

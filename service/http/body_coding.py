"""Refuse bodies that are too large before they are in memory, unpack and pack them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.bodies import header_of
from service.http.errors import (
    MalformedBodyError,
    UnsupportedMediaError,
    body_too_large,
    problem_of,
    problem_response,
)

#: Smaller answers stay as they are: they fit into one packet anyhow.
LEAST_BYTES = 1024

#: Of zlib; from here on, columns of numbers hardly get smaller but take twice as long.
LEVEL = 4

#: Bytes of a body that are unpacked at a time; a small body can say that it is huge.
PIECE_BYTES = 64 * 1024

_KNOWN = (b"gzip", b"identity")
_ABOUT_THE_PACKED = (b"content-encoding", b"content-length")


class BodyCoding:
    """ASGI middleware: bodies may come as gzip, up to a limit; answers go out as gzip if wished.

    A packed body goes on as it was; one that is packed otherwise gets 415. A body above the limit
    of its path gets 413: unread where it states its length, else it is cut off while it is read.
    Answers above :data:`LEAST_BYTES` are packed where the caller accepts it.

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
        self._gzip = GZipMiddleware(self._take_in, minimum_size=LEAST_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, its answer through compression where that is asked for."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif b"gzip" in (header_of(scope, b"accept-encoding") or b""):
            await self._gzip(scope, receive, send)
        else:
            # The general middleware holds back and looks at every answer, which costs more than
            # all other layers together.
            await self._take_in(scope, receive, send)

    async def _take_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unpacked where it is packed; or refuse its body."""
        packed = (header_of(scope, b"content-encoding") or b"").strip().lower()
        if packed and packed not in _KNOWN:
            await _refusal(packed)(scope, receive, send)
            return
        if packed == b"gzip":
            # What comes out has no stated length, so that it is counted.
            headers = [pair for pair in scope["headers"] if pair[0] not in _ABOUT_THE_PACKED]
            scope, receive = {**scope, "headers": headers}, _unpacked(receive)
        if scope["method"] not in ("GET", "HEAD"):
            limit = self._limits_bytes.get(scope["path"], self._limit_bytes)
            stated = header_of(scope, b"content-length") or b""
            if stated.isdigit() and int(stated) > limit:
                response = problem_response(body_too_large(limit), {"Connection": "close"})
                await response(scope, receive, send)
                return
            # A stated length is what the server hands on; only an unstated one has to be counted.
            receive = receive if stated else _counted(receive, limit)
        await self._app(scope, receive, send)


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


def _refusal(packed: bytes) -> ASGIApp:
    error = UnsupportedMediaError(
        f"The body is packed as {packed[:40].decode('latin-1')!r}; send it as it is, or as gzip.",
        allowed=tuple(name.decode() for name in _KNOWN),
    )
    return problem_response(problem_of(error))


def _unpacked(receive: Receive) -> Receive:
    inflate = zlib.decompressobj(wbits=31)
    rest = b""
    more, held = True, False

    async def unpacking() -> Message:
        nonlocal rest, more, held
        if more and not (rest or held):
            message = await receive()
            if message["type"] != "http.request":
                return message
            rest, more = message.get("body", b""), message.get("more_body", False)
        try:
            piece = inflate.decompress(rest, PIECE_BYTES)
        except zlib.error as error:
            raise MalformedBodyError(
                f"The body is not gzip, as its header says: {error}."
            ) from error
        rest = inflate.unconsumed_tail
        # All that came may be eaten while more of it than fits a piece is still to come out.
        held = len(piece) == PIECE_BYTES and not inflate.eof
        last = not (rest or more or held)
        if inflate.unused_data or (last and not inflate.eof):
            raise MalformedBodyError("The body is not one whole gzip.")
        return {"type": "http.request", "body": piece, "more_body": not last}

    return unpacking

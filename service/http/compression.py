"""Compressed answers for callers that ask for them, and bodies that come compressed."""

from __future__ import annotations

import zlib

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.bodies import header_of
from service.http.errors import (
    MalformedBodyError,
    UnsupportedMediaError,
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


class Compression:
    """ASGI middleware: gzip above :data:`LEAST_BYTES` where the caller accepts it.

    Others pass untouched: the general middleware holds back and looks at every answer, which costs
    more than all other layers together.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._gzip = GZipMiddleware(app, minimum_size=LEAST_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, through compression where it is asked for."""
        http = scope["type"] == "http"
        wanted = http and b"gzip" in (header_of(scope, b"accept-encoding") or b"")
        await (self._gzip if wanted else self._app)(scope, receive, send)


class Decompression:
    """ASGI middleware: bodies with ``Content-Encoding: gzip`` go on as they were; others get 415.

    What comes out has no stated length, so that :class:`~service.http.body_limit.BodyLimit`,
    further in, counts it and cuts it off.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unpacked where it is packed."""
        http = scope["type"] == "http"
        packed = http and header_of(scope, b"content-encoding") or b""
        packed = packed.strip().lower()
        if packed in (b"", b"identity"):
            await self._app(scope, receive, send)
        elif packed == b"gzip":
            headers = [pair for pair in scope["headers"] if pair[0] not in _ABOUT_THE_PACKED]
            await self._app({**scope, "headers": headers}, _unpacked(receive), send)
        else:
            await _refusal(packed)(scope, receive, send)


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

"""Read bodies that come compressed, without ever holding more than a piece of them."""

from __future__ import annotations

import zlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import MalformedBodyError, UnsupportedMediaError, problem_of, problem_response

#: Bytes of a body that are unpacked at a time; a small body can say that it is huge.
PIECE_BYTES = 64 * 1024

_KNOWN = (b"gzip", b"identity")
_ABOUT_THE_PACKED = (b"content-encoding", b"content-length")


class Decompression:
    """ASGI middleware: bodies with ``Content-Encoding: gzip`` go on as they were; others get 415.

    What comes out has no stated length, so that :class:`~service.body_limit.BodyLimit`, further in,
    counts it and cuts it off.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unpacked where it is packed."""
        packed = _encoding(scope)
        if packed in (b"", b"identity"):
            await self._app(scope, receive, send)
        elif packed == b"gzip":
            headers = [pair for pair in scope["headers"] if pair[0] not in _ABOUT_THE_PACKED]
            await self._app({**scope, "headers": headers}, _unpacked(receive), send)
        else:
            await _refusal(packed)(scope, receive, send)


def _encoding(scope: Scope) -> bytes:
    if scope["type"] != "http":
        return b""
    for name, value in scope["headers"]:
        if name == b"content-encoding":
            return bytes(value.strip().lower())
    return b""


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

"""Bodies: room for large ones, limits before they are in memory, unpacked and packed."""

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
    http_problem,
    problem_of,
    problem_response,
)

#: Bodies up to this size always find room: questions about one job on one placement.
SMALL_BYTES = 64 * 1024

#: How much larger than its packed form JSON is taken to be; a length of so few digits is that of a
#: small body either way.
_UNPACKED, _SHORT = 32, 4

#: Smaller answers stay as they are: they fit into one packet anyhow.
LEAST_BYTES = 1024

#: Of zlib; from here on, columns of numbers hardly get smaller but take twice as long.
LEVEL = 4

#: Bytes of a body that are unpacked at a time; a small body can say that it is huge.
PIECE_BYTES = 64 * 1024

_KNOWN = (b"gzip", b"identity")
_ABOUT_THE_PACKED = (b"content-encoding", b"content-length")


class RequestBodies:
    """ASGI middleware: room for large bodies, their limits, and gzip in both directions.

    Decoded, a body takes some ten times its size, and it stays until its answer is there: where
    large ones are under way already the answer is 503, and 429 where they are the key's. One
    without a stated length counts as the largest that its path takes; one always finds room where
    there is no other; one key has half of it while others send too.

    A body above the limit of its path gets 413: unread where it states its length, else it is cut
    off while it is read. A packed one goes on as it was; one that is packed otherwise than as gzip
    gets 415. Answers above :data:`LEAST_BYTES` are packed where the caller accepts it.

    Parameters
    ----------
    limit_bytes : int
        The largest body, for every path that has no limit of its own.
    limits_bytes : mapping of str to int
        By exact path.
    most_bytes : int
        Of all large bodies together.
    """

    def __init__(
        self, app: ASGIApp, *, limit_bytes: int, limits_bytes: Mapping[str, int], most_bytes: int
    ) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._limits_bytes = dict(limits_bytes)
        self._most = most_bytes
        self._held: dict[str, int] = {}
        self._gzip = GZipMiddleware(self._take_in, minimum_size=LEAST_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on once there is room for its body, or turn it away."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The general middleware holds back and looks at every answer, which costs more than all
        # other layers together.
        wants_gzip = b"gzip" in (header_of(scope, b"accept-encoding") or b"")
        app = self._gzip if wants_gzip else self._take_in
        stated = header_of(scope, b"content-length")
        is_short = stated is not None and len(stated) < _SHORT  # however well it is packed
        size = 0 if is_short else self._size_of(scope, stated)
        if size <= SMALL_BYTES:
            await app(scope, receive, send)
        else:
            await self._hold(size, app, scope, receive, send)

    async def _hold(
        self, size: int, app: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request with a large body on, or turn it away."""
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
            await app(scope, receive, send)
        finally:
            self._held[caller] -= size
            if not self._held[caller]:
                del self._held[caller]

    def _size_of(self, scope: Scope, stated: bytes | None) -> int:
        if scope["method"] in ("GET", "HEAD"):
            return 0
        limit = self._limits_bytes.get(scope["path"], self._limit_bytes)
        if stated is None or not stated.isdigit():
            return limit if header_of(scope, b"transfer-encoding") else 0
        packed = header_of(scope, b"content-encoding")
        return min(int(stated) * (_UNPACKED if packed else 1), limit)

    def _refusal(self, caller: str, size: int) -> HTTPStatus | None:
        held = sum(self._held.values())
        if held and held + size > self._most:
            return HTTPStatus.SERVICE_UNAVAILABLE
        others = held - self._held.get(caller, 0)
        if others and self._held.get(caller, 0) + size > self._most // 2:
            return HTTPStatus.TOO_MANY_REQUESTS
        return None

    async def _take_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, unpacked where it is packed; or refuse its body."""
        packed = (header_of(scope, b"content-encoding") or b"").strip().lower()
        if packed and packed not in _KNOWN:
            await _unknown_packing(packed)(scope, receive, send)
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


def _unknown_packing(packed: bytes) -> ASGIApp:
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

"""Bodies: their JSON and headers, limits before they are in memory, unpacked, packed, left out.

JSON is written deterministically: equal content gives equal bytes. What a caller need not fetch
again has an ``ETag`` (RFC 9110, 13.1.2). HEAD is answered wherever there is GET, without a body
(9.3.2).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.errors import (
    MalformedBodyError,
    UnsupportedMediaError,
    body_too_large,
    http_problem,
    problem_of,
    problem_response,
)


def read_json(body: bytes) -> Any:
    """Decode a body.

    Raises
    ------
    MalformedBodyError
        Not JSON; NaN and infinities are not.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedBodyError(
            f"The body is not valid JSON: {error}. NaN and infinities are not JSON numbers."
        ) from error


def media_type(request: Request) -> str:
    """Return the content type of a body without its parameters, lower case; "" if not stated."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def json_body_of(request: Request) -> bytes:
    """Return the body of a request that says it is JSON, or says nothing.

    Raises
    ------
    UnsupportedMediaError
        It says it is something else.
    """
    kind = media_type(request)
    if kind not in ("", "application/json") and not kind.endswith("+json"):
        raise unread_media(kind, "application/json")
    return await request.body()


def unread_media(kind: str, *allowed: str) -> UnsupportedMediaError:
    """Return the refusal of a content type that is not read."""
    wanted = " or ".join(f"'Content-Type: {one}'" for one in allowed)
    return UnsupportedMediaError(f"The body is {kind!r}; send {wanted}.", allowed=allowed)


def header_of(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of a name, in lower case as ASGI hands names over; or None."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


async def body_of(receive: Receive) -> bytes | None:
    """Return a whole body; None where its sender has left."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


async def json_of(request: Request) -> Any:
    """Return the decoded body of a request; as :func:`json_body_of` and :func:`read_json`."""
    return read_json(await json_body_of(request))


def json_bytes(content: Any) -> bytes:
    """Write anything made of dataclasses, mappings, arrays and JSON values; NaN becomes null."""
    return orjson.dumps(content, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)


def json_response(content: Any, status_code: int = 200) -> Response:
    """Return what :func:`json_bytes` writes as a response."""
    return Response(json_bytes(content), status_code=status_code, media_type="application/json")


def etagged_response(
    request: Request,
    content: Any,
    *,
    media_type: str = "application/json",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Response:
    """Return an answer with its tag, or 304 without a body where the caller has it already.

    The tag is a hash of the bytes, so that it stays equal across restarts and workers as long as
    the answer does. It is a weak one, since the body may be compressed on its way.

    Parameters
    ----------
    request : Request
        Its ``If-None-Match`` holds the tags of what the caller has. A query by POST that changes
        nothing is treated like GET.
    content : object or bytes
        What :func:`json_bytes` takes, or a body that is written already.
    headers : mapping of str to str
        Others that go with it, in lower case; ``cache-control`` stands over the usual one.
    """
    body = content if isinstance(content, bytes) else json_bytes(content)
    tag = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    # Ask again each time: a model, a price or an observation may have changed the answer.
    told = {"etag": tag, "cache-control": "no-cache", **headers}
    if _matches(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=told)
    return Response(body, media_type=media_type, headers=told)


def _matches(if_none_match: str, tag: str) -> bool:
    """Tell whether a list of tags holds one, weak or strong alike.

    Examples
    --------
    >>> _matches('"a", W/"b"', 'W/"a"'), _matches("*", 'W/"a"'), _matches("", 'W/"a"')
    (True, True, False)
    """
    if if_none_match.strip() == "*":
        return True
    opaque = tag.removeprefix("W/")
    return any(part.strip().removeprefix("W/") == opaque for part in if_none_match.split(","))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value.")


#: Bodies up to this size always find room: questions about one job on one placement.
SMALL_BYTES = 64 * 1024

#: How much larger than its packed form JSON is taken to be.
_UNPACKED = 32

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
        self._gzip = GZipMiddleware(app, minimum_size=LEAST_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on once there is room for its body, or turn it away."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The general middleware holds back and looks at every answer, which costs more than all
        # other layers together.
        wants_gzip = b"gzip" in (header_of(scope, b"accept-encoding") or b"")
        app = self._gzip if wants_gzip else self._app
        stated = header_of(scope, b"content-length") or b""
        limit = self._limits_bytes.get(scope["path"], self._limit_bytes)
        is_small = scope["method"] in ("GET", "HEAD") or (
            stated.isdigit() and int(stated) <= min(limit, SMALL_BYTES)
        )
        if is_small and header_of(scope, b"content-encoding") is None:
            await app(scope, receive, send)
        else:
            await self._take_in(app, limit, scope, receive, send)

    async def _take_in(
        self, app: ASGIApp, limit: int, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, unpacked where it is packed; or refuse its body."""
        packed = (header_of(scope, b"content-encoding") or b"").strip().lower()
        if packed and packed not in _KNOWN:
            await _unknown_packing(packed)(scope, receive, send)
            return
        stated = header_of(scope, b"content-length") or b""
        size = limit if header_of(scope, b"transfer-encoding") else 0
        if stated.isdigit():
            size = int(stated)
            if size > limit:
                response = problem_response(body_too_large(limit), {"Connection": "close"})
                await response(scope, receive, send)
                return
            size = min(size * (_UNPACKED if packed else 1), limit)
        if packed == b"gzip":
            headers = [pair for pair in scope["headers"] if pair[0] not in _ABOUT_THE_PACKED]
            scope, receive = {**scope, "headers": headers}, _unpacked(receive)
        # A stated length is what the server hands on; what comes out of a packed one is counted.
        if packed == b"gzip" or not stated:
            receive = _counted(receive, limit)
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

    def _refusal(self, caller: str, size: int) -> HTTPStatus | None:
        held = sum(self._held.values())
        if held and held + size > self._most:
            return HTTPStatus.SERVICE_UNAVAILABLE
        others = held - self._held.get(caller, 0)
        if others and self._held.get(caller, 0) + size > self._most // 2:
            return HTTPStatus.TOO_MANY_REQUESTS
        return None


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


class HeadRequests:
    """ASGI middleware that asks the routes by GET for who asks by HEAD.

    What watches requests stands around it, what answers them within; load balancers and monitors
    ask for health so.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and of the answer to HEAD its head alone."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}

        async def head(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Which route it was, and whose key, is told to those who watch.
                scope.update(asked, method="HEAD")
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        await self._app(asked, receive, head)

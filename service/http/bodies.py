"""Bodies and headers; JSON is written deterministically: equal content gives equal bytes.

Those that a caller need not fetch again have an ``ETag`` (RFC 9110, 13.1.2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response
from starlette.types import Receive, Scope

from service.http.errors import MalformedBodyError, UnsupportedMediaError


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


def etagged_response(request: Request, content: Any) -> Response:
    """Return an answer with its tag, or 304 without a body where the caller has it already.

    The tag is a hash of the bytes, so that it stays equal across restarts and workers as long as
    the answer does. It is a weak one, since the body may be compressed on its way.

    Parameters
    ----------
    request : Request
        Its ``If-None-Match`` holds the tags of what the caller has. A query by POST that changes
        nothing is treated like GET.
    content : object or bytes
        What :func:`json_response` takes, or JSON that is written already.
    """
    if isinstance(content, bytes):
        response = Response(content, media_type="application/json")
    else:
        response = json_response(content)
    tag = etag_of(bytes(response.body))
    if matches(request.headers.get("if-none-match", ""), tag):
        response = Response(status_code=HTTPStatus.NOT_MODIFIED)
    response.headers["etag"] = tag
    # Ask again each time: a model, a price or an observation may have changed the answer.
    response.headers["cache-control"] = "no-cache"
    return response


def etag_of(body: bytes) -> str:
    """Return the weak tag of a body: 96 bits of its BLAKE2b.

    Examples
    --------
    >>> etag_of(b"{}") == etag_of(b"{}"), etag_of(b"{}") == etag_of(b"[]")
    (True, False)
    """
    return f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Tell whether a list of tags holds one, weak or strong alike.

    Examples
    --------
    >>> matches('"a", W/"b"', 'W/"a"'), matches("*", 'W/"a"'), matches("", 'W/"a"')
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

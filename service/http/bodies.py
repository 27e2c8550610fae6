"""Bodies and headers; JSON is written deterministically: equal content gives equal bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response
from starlette.types import Scope

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
        raise UnsupportedMediaError(
            f"The body is {kind!r}; send 'Content-Type: application/json'.",
            allowed=("application/json",),
        )
    return await request.body()


def header_of(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of a name, in lower case as ASGI hands names over; or None."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


async def json_of(request: Request) -> Any:
    """Return the decoded body of a request; as :func:`json_body_of` and :func:`read_json`."""
    return read_json(await json_body_of(request))


def json_bytes(content: Any) -> bytes:
    """Write anything made of dataclasses, mappings, arrays and JSON values; NaN becomes null."""
    return orjson.dumps(content, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)


def json_response(content: Any, status_code: int = 200) -> Response:
    """Return what :func:`json_bytes` writes as a response."""
    return Response(json_bytes(content), status_code=status_code, media_type="application/json")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value.")

"""Answers that a caller need not fetch again: ``ETag`` and ``If-None-Match`` (RFC 9110, 13.1.2)."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response

from service.http.bodies import json_response


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
        What :func:`~service.http.bodies.json_response` takes, or JSON that is written already.
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

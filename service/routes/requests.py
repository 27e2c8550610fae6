"""What every route that takes a body does first."""

from __future__ import annotations

from typing import cast

from fastapi import Request

from service.answering.terms import deadline_header
from service.desk import Desk
from service.errors import UnsupportedMediaError
from service.state import State


def desk_of(request: Request) -> Desk:
    """Return the desk of the app that got a request."""
    return cast(Desk, request.app.state.desk)


def waits_of(request: Request) -> bytes | None:
    """Return how many milliseconds the header says that the caller waits, or None."""
    return deadline_header(request.scope["headers"])


def state_of(request: Request) -> State:
    """Return what the app that got a request remembers."""
    return desk_of(request).state


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

"""What routes find in a request: who answers, what is stored, how long its caller waits."""

from __future__ import annotations

from typing import cast

from fastapi import Request

from service.dispatch.dispatcher import Dispatcher
from service.dispatch.options import HEADER
from service.http.bodies import header_of
from service.state.state import State


def dispatcher_of(request: Request) -> Dispatcher:
    """Return the dispatcher of the app that got a request."""
    return cast(Dispatcher, request.app.state.dispatcher)


def state_of(request: Request) -> State:
    """Return what the app that got a request remembers."""
    return dispatcher_of(request).state


def waits_of(request: Request) -> bytes | None:
    """Return how many milliseconds the header says that the caller waits, or None."""
    return header_of(request.scope, HEADER)

"""Handlers that wait for the database, and so run in threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any

from fastapi import Response

from service.dispatch.dispatcher import dispatcher_of


def in_threads(handler: Callable[..., Response]) -> Callable[..., Coroutine[Any, Any, Response]]:
    """Let a handler of a request run in the threads of the service, callers in turn."""

    @wraps(handler)
    async def answered(**given: Any) -> Response:
        return await dispatcher_of(given["request"]).threads.run(partial(handler, **given))

    return answered

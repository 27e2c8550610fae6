"""Turn questions away that no thread has room for, before a route is found for them.

What is refused is paid by what is answered: at four times the pace that can be answered three of
four questions are refused, and a route with what it depends on takes longer than all of the rest.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perfmodel.errors import PerfModelError
from service.dispatch.direct import Matched
from service.dispatch.dispatcher import Dispatcher
from service.dispatch.options import HEADER
from service.http.bodies import body_of, header_of
from service.http.errors import (
    OverloadedError,
    TooManyWaitingError,
    problem_of,
    problem_response,
)

#: Questions that threads answer, whatever they are about.
_ROUTES = {path: Matched(path) for path in ("/v1/matrix", "/v1/curve", "/v1/rank", "/v1/explain")}
#: With a deadline the analytical model may answer in their place.
_DEADLINE = b"deadline_ms"


class RefusesEarly:
    """ASGI middleware: 503 or 429 where the threads have no room, as the route would say.

    Stands behind what keeps questions for later, which are not refused.
    """

    def __init__(self, app: ASGIApp, *, dispatcher: Dispatcher) -> None:
        self._app = app
        self._dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        body = await body_of(receive)
        if body is None:
            return
        if _DEADLINE in body:
            await self._app(scope, _again(body, receive), send)
            return
        scope["route"] = _ROUTES[scope["path"]]
        await problem_response(problem_of(refusal))(scope, receive, send)

    def _refusal(self, scope: Scope) -> PerfModelError | None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in _ROUTES:
            return None
        if header_of(scope, HEADER) is not None:
            return None
        try:
            self._dispatcher.threads.quick.check_room()
        except (OverloadedError, TooManyWaitingError) as error:
            return error
        return None


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what hands out a body that was read already, then what comes next."""
    is_read = False

    async def receiving() -> Message:
        nonlocal is_read
        if is_read:
            return await receive()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving

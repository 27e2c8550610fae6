"""Answer ``POST /v1/predict`` without the layers of a route.

Most questions of a scheduler are about graphs that are known, and their answers are worked out in
less time than a route takes to be found, to resolve what it depends on and to build a response.
"""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from perfmodel.errors import PerfModelError
from service.dispatch.dispatcher import Dispatcher
from service.dispatch.options import HEADER as DEADLINE
from service.http.bodies import body_of, json_bytes
from service.http.errors import answer_to_nobody, problem_of, problem_response

PATH = "/v1/predict"

_JSON = b"application/json"


class DirectPredictions:
    """ASGI middleware: answers plain questions as their route would; all else passes on.

    Stands behind access and limits.
    """

    def __init__(self, app: ASGIApp, *, dispatcher: Dispatcher) -> None:
        self._app = app
        self._dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http" or scope["path"] != PATH or not _is_plain(scope):
            await self._app(scope, receive, send)
            return
        body = await body_of(receive)
        if body is None:
            return
        scope["route"] = _ROUTE
        try:
            answer = await self._dispatcher.predict(body)
        except PerfModelError as error:
            await problem_response(problem_of(error))(scope, receive, send)
        except ClientDisconnect:
            await answer_to_nobody()(scope, receive, send)
        else:
            written = json_bytes(answer)
            headers = [(b"content-length", str(len(written)).encode()), (b"content-type", _JSON)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": written})


class Matched:
    """What stands in the place of a route where requests are counted."""

    def __init__(self, path: str) -> None:
        self.path = path


_ROUTE = Matched(PATH)


def _is_plain(scope: Scope) -> bool:
    """Tell whether a request asks for nothing but the answer to a JSON body of stated length."""
    if scope["method"] != "POST":
        return False
    stated = False
    for name, value in scope["headers"]:
        if name == DEADLINE or (name == b"content-type" and value != _JSON):
            return False
        stated = stated or name == b"content-length"
    return stated

"""Answer predictions, and refuse what there is no room for, before a route is found.

Most questions of a scheduler are about graphs that are known, and their answers are worked out in
less time than a route takes to be found, to resolve what it depends on and to build a response.
What is refused is paid by what is answered: at four times the pace that can be answered three of
four questions are refused, and a route takes longer than all of the rest.
"""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perfmodel.errors import PerfModelError
from service.answering.questions import DEADLINE_HEADER
from service.dispatch.dispatcher import Dispatcher
from service.http.bodies import body_of, header_of, json_bytes
from service.http.errors import answer_to_nobody, problem_of, problem_response
from service.http.matched_route import MatchedRoute

PATH = "/v1/predict"

_JSON = b"application/json"


_PREDICT = MatchedRoute(PATH)
#: Questions that threads answer, whatever they are about.
_IN_THREADS = {
    path: MatchedRoute(path) for path in ("/v1/matrix", "/v1/curve", "/v1/rank", "/v1/explain")
}
#: Headers of questions that are not refused here: the analytical model may answer in time, and what
#: is kept for later needs no room now.
_NOT_REFUSED = (DEADLINE_HEADER, b"prefer")
#: As a field of the body, likewise.
_DEADLINE_FIELD = b"deadline_ms"


class BeforeRoutes:
    """ASGI middleware: answers and refuses as the routes would; all else passes on.

    Stands behind access and limits.
    """

    def __init__(self, app: ASGIApp, *, dispatcher: Dispatcher) -> None:
        self._app = app
        self._dispatcher = dispatcher
        #: Refusals by what they say: that differs by a count, and many are told the same.
        self._told: dict[str, Response] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, refuse it, or pass it on."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        if is_post and scope["path"] in _IN_THREADS:
            refusal = self._dispatcher.threads.refusal(scope.get("caller") or "")
            if refusal is not None and _may_be_refused(scope):
                await self._refuse(refusal, scope, receive, send)
                return
        # What says that it is no JSON is refused by its route, and what states no length counted.
        is_asked = is_post and scope["path"] == PATH and header_of(scope, b"content-length")
        if not is_asked or header_of(scope, b"content-type") not in (None, _JSON):
            await self._app(scope, receive, send)
            return
        body = await body_of(receive)
        if body is None:
            return
        scope["route"] = _PREDICT
        try:
            answer = await self._dispatcher.predict(body, header_of(scope, DEADLINE_HEADER))
        except PerfModelError as error:
            await problem_response(problem_of(error))(scope, receive, send)
        except ClientDisconnect:
            await answer_to_nobody()(scope, receive, send)
        else:
            written = json_bytes(answer)
            headers = [(b"content-length", str(len(written)).encode()), (b"content-type", _JSON)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": written})

    async def _refuse(
        self, refusal: PerfModelError, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Refuse a question, unless its body says that the analytical model may answer in time."""
        body = await body_of(receive)
        if body is None:
            return
        if _DEADLINE_FIELD in body:
            await self._app(scope, _again(body, receive), send)
            return
        scope["route"] = _IN_THREADS[scope["path"]]
        told = self._told.get(refusal.message)
        if told is None:
            told = self._told[refusal.message] = problem_response(problem_of(refusal))
        await told(scope, receive, send)


def _may_be_refused(scope: Scope) -> bool:
    return not any(name in _NOT_REFUSED for name, _ in scope["headers"])


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

"""Answer 202 to callers that prefer to come back for the answer."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from perfmodel.errors import PerfModelError
from perfmodel.store.state.operations import Operation, OperationState
from service.access.middleware import path_in_app
from service.answers import json_response
from service.errors import RETRY_AFTER_S, problem_of, problem_response
from service.operations.answer import answer_of, operation_to_dict, place_of
from service.operations.kinds import KINDS
from service.operations.preference import preference_of
from service.operations.replay import KeptRequest
from service.operations.runner import Runner

_APPLIED = {"Preference-Applied": "respond-async"}


class RespondAsync:
    """ASGI middleware: keeps what may take long and is asked for with ``Prefer: respond-async``.

    Stands right before the routes, behind access and limits; what is kept is answered by what
    stands behind it.
    """

    def __init__(self, app: ASGIApp, *, runner: Runner) -> None:
        self._app = app
        self._runner = runner
        runner.inner = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or keep it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        kind = KINDS.get(path_in_app(scope))
        preference = preference_of(scope["headers"]) if kind is not None else None
        if kind is None or preference is None or not preference.respond_async:
            await self._app(scope, receive, send)
            return
        try:
            request = KeptRequest.of(scope, path_in_app(scope), await _body(receive))
            caller = scope.get("caller") or ""
            operation = await self._runner.submit(request, kind=kind, caller=caller)
            response = await self._response(operation, preference.wait_s)
        except HTTPException as error:
            # A body that became too large on its way.
            response = problem_response({"status": error.status_code, **_of(error)}, error.headers)
        except PerfModelError as error:
            response = problem_response(problem_of(error))
        await response(scope, receive, send)

    async def _response(self, operation: Operation, wait_s: float) -> Response:
        if wait_s:
            ended = await self._runner.find(operation.name, wait_s=wait_s)
            if ended is not None and ended.has_ended:
                result = None
                if ended.state is OperationState.DONE:
                    result = await self._runner.result(ended.name)
                return answer_of(ended, result)
        return accepted(operation)


def accepted(operation: Operation) -> Response:
    """Return the answer to a request that was kept."""
    response = json_response(operation_to_dict(operation), 202)
    response.headers["Location"] = place_of(operation)
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    response.headers.update(_APPLIED)
    return response


def _of(error: HTTPException) -> dict[str, object]:
    return {
        "type": "urn:perfmodel:problem:request-entity-too-large",
        "title": "Request entity too large",
        "detail": str(error.detail),
        "errors": [],
        "did_you_mean": [],
    }


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body.extend(message.get("body", b""))
        if not message.get("more_body", False):
            return bytes(body)

"""Answer 202 to callers that prefer to come back for the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from perfmodel.errors import PerfModelError
from perfmodel.store.state.operations import Operation
from service.access.access_policy import path_in_app
from service.http.bodies import body_of, header_of
from service.http.errors import http_problem, problem_of, problem_response
from service.http.matched_route import MatchedRoute
from service.operations.answer import accepted, answer_of
from service.operations.kept_request import KeptRequest
from service.operations.runner import Runner

#: What may take long, and what it is called.
KINDS: Mapping[str, str] = MappingProxyType(
    {"/v1/jobs": "jobs", "/v1/graphs": "graphs", "/v1/matrix": "matrix"}
)

#: Longest time that a caller is let wait, seconds.
MOST_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """How a caller wants to be answered (RFC 7240).

    Parameters
    ----------
    respond_async : bool
        Later is welcome.
    wait_s : float
        But at once if it takes no longer than this.
    """

    respond_async: bool = False
    wait_s: float = 0.0


def preference_of(headers: Iterable[tuple[bytes, bytes]]) -> Preference:
    """Read the ``Prefer`` headers of a request; what is not known is passed over.

    Examples
    --------
    >>> preference_of([(b"prefer", b'respond-async, wait=10'), (b"accept", b"*/*")])
    Preference(respond_async=True, wait_s=10.0)
    >>> preference_of([(b"prefer", b"return=minimal")]).respond_async
    False
    """
    words: dict[str, str] = {}
    for name, value in headers:
        if name == b"prefer":
            for written in value.decode("latin-1").split(","):
                # A preference may have parameters behind semicolons; these two have none.
                word, _, argument = written.partition(";")[0].partition("=")
                # Of one that is stated twice the first counts.
                words.setdefault(word.strip().lower(), argument.strip().strip('"'))
    wait = words.get("wait", "")
    return Preference(
        respond_async="respond-async" in words,
        wait_s=min(float(wait[:6]), MOST_WAIT_S) if wait.isdecimal() else 0.0,
    )


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
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        prefers = is_post and header_of(scope, b"prefer") is not None
        kind = KINDS.get(path_in_app(scope)) if prefers else None
        preference = preference_of(scope["headers"]) if kind is not None else None
        if kind is None or preference is None or not preference.respond_async:
            await self._app(scope, receive, send)
            return
        scope["route"] = MatchedRoute(path_in_app(scope))
        try:
            body = await body_of(receive)
            if body is None:
                return
            request = KeptRequest.of(scope, path_in_app(scope), body)
            caller = scope.get("caller") or ""
            operation = await self._runner.submit(request, kind=kind, caller=caller)
            response = await self._response(operation, preference.wait_s)
        except HTTPException as error:
            # A body that became too large on its way.
            status = HTTPStatus(error.status_code)
            content = http_problem(status, str(error.detail), title="Request entity too large")
            response = problem_response(content, error.headers)
        except PerfModelError as error:
            response = problem_response(problem_of(error))
        await response(scope, receive, send)

    async def _response(self, operation: Operation, wait_s: float) -> Response:
        if wait_s:
            ended = await self._runner.find(operation.name, wait_s=wait_s)
            if ended is not None and ended.has_ended:
                return answer_of(ended, await self._runner.result(ended.name))
        return accepted(operation)

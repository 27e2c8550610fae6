"""Turn every error into an RFC 9457 problem; the only place that knows HTTP status codes."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from perfmodel.errors import (
    BusyError,
    DamagedArtifactError,
    InvalidInputError,
    MissingExtraError,
    NotInTimeError,
    OvertakenError,
    PerfModelError,
    StoreError,
    TakenNameError,
    UnknownNameError,
)
from perfmodel.json_values import shown
from service.http.redaction import without_own_paths, without_places

logger = logging.getLogger(__name__)

PROBLEM_MEDIA_TYPE = "application/problem+json"

#: Of a request whose sender hung up before it was answered; nobody reads it. As nginx has it, since
#: no standard has one.
CLIENT_CLOSED_REQUEST = 499

#: Seconds after which a caller that was turned away may try again.
RETRY_AFTER_S = 1

#: Characters of one text of a problem.
_MOST_TEXT = 4_000

#: What may be asked again as it is, a little later.
_RETRIED = (
    HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT,
)  # fmt: skip


class MalformedBodyError(InvalidInputError):
    """A body that is not JSON at all."""


class UnsupportedMediaError(InvalidInputError):
    """A body of a content type that the route does not read."""


class PinnedModelError(InvalidInputError):
    """A version of the model that is installed here and cannot answer."""


class NotYoursError(InvalidInputError):
    """What belongs to another caller."""


class OverloadedError(PerfModelError):
    """More questions wait than may wait."""


class TooManyWaitingError(PerfModelError):
    """More questions of one key wait than may wait."""


#: The first that an error is an instance of counts; what is none of them is a defect.
_STATUS: tuple[tuple[type[PerfModelError], HTTPStatus], ...] = (
    (MalformedBodyError, HTTPStatus.BAD_REQUEST),
    (UnsupportedMediaError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (TakenNameError, HTTPStatus.CONFLICT),
    (PinnedModelError, HTTPStatus.CONFLICT),
    (NotYoursError, HTTPStatus.FORBIDDEN),
    (InvalidInputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (MissingExtraError, HTTPStatus.NOT_IMPLEMENTED),
    (OvertakenError, HTTPStatus.CONFLICT),
    (TooManyWaitingError, HTTPStatus.TOO_MANY_REQUESTS),
    (OverloadedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (BusyError, HTTPStatus.SERVICE_UNAVAILABLE),
    (DamagedArtifactError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotInTimeError, HTTPStatus.GATEWAY_TIMEOUT),
)


def install(app: FastAPI) -> None:
    """Make an app answer every error with a problem."""
    app.add_exception_handler(PerfModelError, _on_perfmodel_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, _on_defect)


def problem_of(error: PerfModelError) -> dict[str, Any]:
    """Describe an error as an RFC 9457 object."""
    errors = []
    status = status_of(error)
    by_server = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    detail = (without_places if by_server else without_own_paths)(_shortened(error.message))
    if isinstance(error, InvalidInputError):
        errors += [_part(one) for one in (error, *error.others)]
    name = type(error).__name__.removesuffix("Error")
    return problem(
        status,
        kind=_dashed(name),
        title=_dashed(name).replace("-", " ").capitalize(),
        detail=detail,
        errors=errors,
        did_you_mean=error.did_you_mean if isinstance(error, UnknownNameError) else (),
    )


def _shortened(text: str) -> str:
    """Return what is said without most of what a caller wrote, where it repeats that at length."""
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."


def _part(error: InvalidInputError) -> dict[str, Any]:
    """Describe one mistake of an input, which may have many."""
    return {
        "pointer": error.pointer,
        "detail": without_own_paths(_shortened(error.message)),
        "allowed": list(error.allowed),
    }


def status_of(error: PerfModelError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    found = (status for kind, status in _STATUS if isinstance(error, kind))
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def problem(
    status: HTTPStatus,
    *,
    kind: str,
    title: str,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    did_you_mean: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a problem object; every one has the same fields."""
    return {
        "type": f"urn:perfmodel:problem:{kind}",
        "title": title,
        "status": int(status),
        "detail": detail,
        "errors": list(errors),
        "did_you_mean": list(did_you_mean),
    }


def problem_response(
    content: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem object as a response.

    Its detail is there as ``error`` too, which clients of the v2 inference protocol read.
    """
    return Response(
        orjson.dumps({**content, "error": content["detail"]}),
        status_code=content["status"],
        media_type=PROBLEM_MEDIA_TYPE,
        headers={**retry_headers(content["status"]), **(headers or {})},
    )


def retry_headers(status: int) -> dict[str, str]:
    """Return what says when to ask again; nothing where that would not help."""
    return {"Retry-After": str(RETRY_AFTER_S)} if status in _RETRIED else {}


def answer_to_nobody() -> Response:
    """Return the response to a caller who has gone.

    No defect of the service: its log and its alerts are not for callers to fill.
    """
    return Response(status_code=CLIENT_CLOSED_REQUEST)


def not_found(detail: str | None = None) -> HTTPException:
    """Return what a route raises where there is nothing.

    Parameters
    ----------
    detail : str or None
        What its caller is told; None says no more than that there is nothing for this key.
    """
    return HTTPException(HTTPStatus.NOT_FOUND, detail)


def body_too_large(limit_bytes: int) -> dict[str, Any]:
    """Return the problem of a body above a limit."""
    return http_problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"The body is larger than {limit_bytes} bytes. Send less at a time.",
    )


def http_problem(status: HTTPStatus, detail: str, *, title: str = "") -> dict[str, Any]:
    """Return the problem that a status stands for."""
    kind = _dashed(status.phrase.title().replace(" ", ""))
    return problem(status, kind=kind, title=title or status.phrase, detail=detail)


def defect_problem() -> dict[str, Any]:
    """Return the problem of an error of the service itself."""
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        kind="internal-error",
        title="Internal error",
        detail="The service failed on this request; its log says why.",
    )


async def _on_perfmodel_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, PerfModelError)
    if isinstance(error, StoreError | DamagedArtifactError):
        # The log has what the answer leaves out.
        logger.warning("%s %s: %s", request.method, request.url.path, error.message)
    # An error that a child process described comes with its problem.
    content = getattr(error, "content", None)
    return problem_response(content or problem_of(error))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail, headers = _http_detail(request, status, error), error.headers
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        taken = ", ".join(_methods_of(request))
        detail = f"{request.url.path} does not take {request.method}; it takes {taken}."
        headers = {**(headers or {}), "Allow": taken}
    return problem_response(http_problem(status, detail), headers)


_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def _methods_of(request: Request) -> list[str]:
    """Return what the routes of a path take: each knows of itself alone."""
    asked = ({**request.scope, "method": method} for method in _METHODS)
    routes = request.app.router.routes
    return [one["method"] for one in asked if any(r.matches(one)[0] is Match.FULL for r in routes)]


def _http_detail(request: Request, status: HTTPStatus, error: HTTPException) -> str:
    if status is not HTTPStatus.NOT_FOUND or error.detail != status.phrase:
        return str(error.detail)
    if request.path_params:
        return f"There is nothing at {request.url.path}, or nothing that this key may see."
    return f"There is nothing at {request.url.path}. /docs lists every route."


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {
            "pointer": "/" + "/".join(str(part) for part in item["loc"]),
            "detail": f"{item['msg']}; got {shown(item.get('input'))}.",
            "allowed": [],
        }
        for item in error.errors()
    ]
    content = problem(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        kind="invalid-input",
        title="Invalid input",
        detail=f"{errors[0]['pointer']}: {errors[0]['detail']}",
        errors=errors,
    )
    return problem_response(content)


async def _on_disconnect(_: Request, __: Exception) -> Response:
    return answer_to_nobody()


async def _on_defect(request: Request, error: Exception) -> Response:
    # What went wrong inside is for the log, not for the caller.
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(defect_problem())


def _dashed(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()

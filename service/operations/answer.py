"""Operations as they are answered."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from perfmodel.store.state.operations import Operation, OperationState
from service.http.bodies import json_response
from service.http.errors import RETRY_AFTER_S, problem_response


def operation_to_dict(operation: Operation) -> dict[str, Any]:
    """Return an operation as an answer."""
    is_done = operation.state is OperationState.DONE
    return {
        "id": operation.name,
        "kind": operation.kind,
        "state": operation.state.value,
        "attempts": operation.attempts,
        "status": operation.status,
        "result": f"{_path(operation)}/result" if is_done else None,
        "problem": None if operation.problem is None else orjson.loads(operation.problem),
        "created_at": operation.created_at,
        "updated_at": operation.updated_at,
    }


def accepted(operation: Operation) -> Response:
    """Return the answer to a request that was kept."""
    response = json_response(operation_to_dict(operation), 202)
    response.headers["Location"] = _path(operation)
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    response.headers["Preference-Applied"] = "respond-async"
    return response


def answer_of(operation: Operation, result: bytes | None) -> Response:
    """Return what the request would have been answered with, had it been waited for.

    Parameters
    ----------
    result : bytes or None
        What came of it, if it is done.
    """
    if operation.problem is not None:
        return problem_response(orjson.loads(operation.problem))
    return Response(
        result or b"", status_code=operation.status or 200, media_type="application/json"
    )


def _path(operation: Operation) -> str:
    return f"/v1/operations/{operation.name}"

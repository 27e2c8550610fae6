"""``GET /v1/operations``, ``GET`` and ``DELETE /v1/operations/{id}``, and the result of one."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from fastapi import APIRouter, Query, Request, Response

from perfmodel.store.state.operations import Operation, OperationState
from service.access.access_policy import is_administrator, owner_shown
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import json_response
from service.http.documentation import problems
from service.http.errors import not_found
from service.operations.answer import accepted, answer_of, operation_to_dict
from service.operations.runner import Runner
from service.routes.in_threads import in_threads
from service.routes.paging import Cursor, Limit, page_response
from service.schemas.answer_bodies import MatrixAnswer
from service.schemas.state_bodies import (
    GraphAnswer,
    JobRegistered,
    OperationEntry,
    OperationsAnswer,
)

router = APIRouter(prefix="/v1/operations", tags=["operations"])

Registered = JobRegistered | GraphAnswer
_AS_THE_REQUEST = "As the request would have been answered, its status included"


@router.get(
    "",
    summary="Operations, newest first",
    responses={200: {"model": OperationsAnswer}, **problems(422, 503)},
)
@in_threads
def operations(
    request: Request,
    state: Annotated[OperationState | None, Query(description="In this state only.")] = None,
    kind: Annotated[
        Literal["jobs", "graphs", "matrix"] | None, Query(description="Of this kind only.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """List requests that are answered later, in pages: one's own, of an administrator's all."""
    mine = owner_shown(request)
    store = dispatcher_of(request).state.operations
    page = store.page(state=state, kind=kind, caller=mine, cursor=cursor, limit=limit)
    return page_response("operations", page, operation_to_dict)


@router.get(
    "/{name}",
    summary="One operation",
    responses={200: {"model": OperationEntry}, **problems(404, 503)},
)
async def operation(request: Request, name: str) -> Response:
    """Return how far an operation is."""
    return json_response(operation_to_dict(await _found(request, name)))


@router.get(
    "/{name}/result",
    summary="What came of an operation",
    responses={
        200: {"model": MatrixAnswer | Registered, "description": _AS_THE_REQUEST},
        201: {"model": Registered, "description": _AS_THE_REQUEST},
        202: {"model": OperationEntry, "description": "It has not ended: ask again"},
        **problems(404, 503),
    },
)
async def result(request: Request, name: str) -> Response:
    """Return what the request would have been answered with, its status and problems included."""
    found = await _found(request, name)
    if not found.has_ended:
        return accepted(found)
    return answer_of(found, await _runner(request).result(name))


@router.delete(
    "/{name}",
    summary="Stop and forget an operation",
    status_code=204,
    responses={**problems(404, 503)},
)
async def remove(request: Request, name: str) -> Response:
    """Forget an operation; one that waits is never begun, one that runs ends without a result.

    Callers see and remove what they asked for themselves, administrators everything.
    """
    await _found(request, name)
    if not await _runner(request).remove(name):
        raise not_found()
    return Response(status_code=204)


def _runner(request: Request) -> Runner:
    return cast(Runner, request.app.state.operations)


async def _found(request: Request, name: str) -> Operation:
    # Not every text can be asked of a database.
    found = await _runner(request).find(name) if name.isalnum() else None
    if found is None or not _is_shown(request, found):
        raise not_found()
    return found


def _is_shown(request: Request, found: Operation) -> bool:
    return found.caller == request.scope.get("caller", "") or is_administrator(request)

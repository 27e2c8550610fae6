"""``POST /v1/jobs``, ``GET /v1/jobs`` and ``GET /v1/jobs/{ref}``."""

from __future__ import annotations

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, HTTPException, Query, Request, Response

from perfmodel.errors import InvalidInputError
from perfmodel.graph.json_values import as_object, refuse_unknown
from perfmodel.requests import parse_job
from perfmodel.store.sql.shared_store import MOST_ITEMS
from perfmodel.store.state.jobs import StoredJob
from service.answers import json_response
from service.desk import Desk, read_json
from service.documentation import problems
from service.job_references import resolve_job_reference
from service.routes.requests import desk_of, json_body_of, state_of
from service.schemas.state_bodies import JobEntry, JobRegistered, JobsAnswer
from service.state import State, stored_job

router = APIRouter(tags=["jobs"])

JOB_EXAMPLES: dict[str, Any] = {
    "a named model": {
        "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    },
    "known by its type": {
        "job": {"job_type": "click-rates", "mode": "training", "batch_size": 512},
    },
}

_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"job": {"$ref": "#/components/schemas/JobBody"}},
                    "required": ["job"],
                    "additionalProperties": False,
                },
                "examples": {name: {"value": value} for name, value in JOB_EXAMPLES.items()},
            }
        },
    }
}


@router.post(
    "/v1/jobs",
    summary="Register a job",
    status_code=201,
    responses={
        200: {"model": JobRegistered, "description": "Registered before"},
        201: {"model": JobRegistered},
        **problems(400, 413, 415, 422, 501, 503),
    },
    openapi_extra=_BODY,
)
async def register(request: Request) -> Response:
    """Keep a job under the hash of its content and capture its step.

    Its ``ref`` then stands for it wherever a job is asked for, and as the annotation
    ``perfmodel/job-ref`` of a pod. The same job always has the same.
    """
    body = read_json(await json_body_of(request))
    desk = desk_of(request)
    stored, created = await desk.in_thread(_register, desk, state_of(request), body)
    answer = {**_entry(stored), "created": created}
    return json_response(answer, 201 if created else 200)


@router.get(
    "/v1/jobs",
    summary="Registered jobs, newest first",
    responses={200: {"model": JobsAnswer}, **problems(422, 503)},
)
async def jobs(
    request: Request,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS)] = 100,
) -> Response:
    """List jobs in pages."""
    store = state_of(request).jobs
    page = await desk_of(request).in_thread(lambda: store.page(cursor=cursor, limit=limit))
    return json_response(
        {"jobs": [_entry(job) for job in page.items], "next_cursor": page.next_cursor}
    )


@router.get(
    "/v1/jobs/{ref}",
    summary="One registered job",
    responses={200: {"model": JobEntry}, **problems(404, 503)},
)
async def job(request: Request, ref: str) -> Response:
    """Return a job by its reference."""
    store = state_of(request).jobs
    # Not every text can be asked of a database.
    stored = await desk_of(request).in_thread(store.find, ref) if ref.isalnum() else None
    if stored is None:
        raise HTTPException(404)
    return json_response(_entry(stored))


def _register(desk: Desk, state: State, body: Any) -> tuple[StoredJob, bool]:
    fields = as_object(body, "", what="A request")
    refuse_unknown(fields, ("job",), "")
    if fields.get("job") is None:
        raise InvalidInputError("A request needs the field 'job'.", pointer="/job")
    job = parse_job(resolve_job_reference(fields["job"], state.references))
    clerk = desk.models.serving
    # A job that nothing can be said of is not kept; of all others the graph is known now.
    prepared = clerk.prepare(job, fields["job"]) if job.job_type is None else None
    stored, created = state.jobs.register(stored_job(job))
    state.references.keep(stored.ref, stored.content)
    if prepared is not None:
        clerk.prepare(job, stored.ref)
        desk.foresight.work_out_at_once(prepared)
    return stored, created


def _entry(stored: StoredJob) -> dict[str, Any]:
    return {
        "ref": stored.ref,
        "job": orjson.loads(stored.content),
        "created_at": stored.created_at,
    }

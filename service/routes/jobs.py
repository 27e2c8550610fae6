"""``POST /v1/jobs``, ``GET /v1/jobs`` and ``GET /v1/jobs/{ref}``."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from perfmodel.errors import InvalidInputError
from perfmodel.json_values import as_object
from perfmodel.store.state.jobs import StoredJob
from service.access.access_policy import caller_of, owner_shown
from service.dispatch.dispatcher import Dispatcher, dispatcher_of
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems
from service.http.errors import not_found
from service.routes.in_threads import in_threads
from service.routes.paging import Cursor, Limit, page_response
from service.schemas.question_bodies import JobRequest
from service.schemas.state_bodies import JobEntry, JobRegistered, JobsAnswer
from service.state.stored_forms import stored_job

router = APIRouter(tags=["jobs"])

JOB_EXAMPLES: dict[str, Any] = {
    "a named model": {
        "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    },
    "known by its type": {
        "job": {"job_type": "click-rates", "mode": "training", "batch_size": 512},
    },
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
    openapi_extra=json_body(JobRequest, JOB_EXAMPLES),
)
async def register(request: Request) -> Response:
    """Keep a job under the hash of its content and capture its step.

    Its ``ref`` then stands for it wherever a job is asked for, and as the annotation
    ``perfmodel/job-ref`` of a pod. The same job always has the same.
    """
    body = await json_of(request)
    dispatcher = dispatcher_of(request)
    stored, created = await dispatcher.threads.run(_register, dispatcher, body, caller_of(request))
    answer = {**_entry(stored), "created": created}
    return json_response(answer, 201 if created else 200)


@router.get(
    "/v1/jobs",
    summary="Registered jobs, newest first",
    responses={200: {"model": JobsAnswer}, **problems(422, 503)},
)
@in_threads
def jobs(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """List jobs in pages: those that this key registered, of an administrator's all."""
    store = dispatcher_of(request).state.jobs
    page = store.page(owner=owner_shown(request), cursor=cursor, limit=limit)
    return page_response("jobs", page, _entry)


@router.get(
    "/v1/jobs/{ref}",
    summary="One registered job",
    responses={200: {"model": JobEntry}, **problems(404, 503)},
)
@in_threads
def job(request: Request, ref: str) -> Response:
    """Return a job by its reference: one that this key registered, to an administrator's any."""
    store, mine = dispatcher_of(request).state.jobs, owner_shown(request)
    # Not every text can be asked of a database.
    is_shown = ref.isalnum() and (mine is None or store.is_of(ref, mine))
    stored = store.find(ref) if is_shown else None
    if stored is None:
        raise not_found()
    return json_response(_entry(stored))


def _register(dispatcher: Dispatcher, body: Any, owner: str) -> tuple[StoredJob, bool]:
    fields = as_object(body, "", what="A request", known=("job",))
    if fields.get("job") is None:
        raise InvalidInputError("A request needs the field 'job'.", pointer="/job")
    answerer, state = dispatcher.models.serving, dispatcher.state
    job = answerer.read_job(fields["job"])
    # A job that nothing can be said of is not kept; of all others the graph is known now.
    prepared = answerer.prepare(job, fields["job"]) if job.job_type is None else None
    stored, created = state.jobs.register(stored_job(job), owner=owner)
    state.references.keep(stored.ref, stored.content)
    if prepared is not None:
        answerer.prepare(job, stored.ref)
        dispatcher.prefetch.predict_now(prepared)
    return stored, created


def _entry(stored: StoredJob) -> dict[str, Any]:
    return {
        "ref": stored.ref,
        "job": orjson.loads(stored.content),
        "created_at": stored.created_at,
    }

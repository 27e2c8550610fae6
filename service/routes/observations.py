"""``POST`` and ``GET /v1/observations``, and ``GET /v1/accuracy``."""

from __future__ import annotations

from typing import Annotated, Any, cast

import orjson
from fastapi import APIRouter, Query, Request, Response

from perfmodel.graph.job_identity import job_family
from perfmodel.requests import parse_job
from perfmodel.store.sql.shared_store import Page
from perfmodel.store.state.observations import ObservationState, StoredObservation
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems, schema_ref
from service.observations.accuracy import AccuracyReport
from service.observations.intake import MOST_OBSERVATIONS, MOST_OF_A_KEY, ObservationIntake
from service.routes.paging import Cursor, Limit, page_response
from service.schemas.answer_bodies import AccuracyAnswer
from service.schemas.state_bodies import ObservationsAnswer, ObservationsTaken
from service.state.job_references import resolve_job_reference
from service.state.state import State

router = APIRouter(tags=["observations"])

OBSERVATION_EXAMPLES: dict[str, Any] = {
    "two steps": {
        "observations": [
            {
                "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
                "placement": "8xA100-SXM4-80GB",
                "step_time_s": 0.09,
                "sync_time_s": 0.01,
                "key": "run-17/step-100",
            },
            {
                "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
                "placement": "1xA100-SXM4-80GB",
                "batch_size": 32,
                "accumulation_steps": 2,
                "step_time_s": 0.085,
            },
        ]
    }
}

_COUNT = {"type": "integer", "minimum": 1, "maximum": 2**24}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["job", "placement", "step_time_s"],
    "additionalProperties": False,
    "properties": {
        "job": {
            "anyOf": [
                {"type": "string", "description": "Reference of a registered job."},
                schema_ref("JobBody"),
            ]
        },
        "placement": {
            "anyOf": [
                {"type": "string", "minLength": 1},
                schema_ref("PlacementBody"),
            ]
        },
        "batch_size": {**_COUNT, "description": "That of the job, unless it is given."},
        "accumulation_steps": {**_COUNT, "description": "Those of the job, unless given."},
        "step_time_s": {
            "type": "number",
            "exclusiveMinimum": 0,
            "description": "Seconds of a whole step, all its micro-batches.",
        },
        "sync_time_s": {
            "type": ["number", "null"],
            "minimum": 0,
            "description": "The part of it in which gradients were synchronised.",
        },
        "key": {
            "type": ["string", "null"],
            "minLength": 1,
            "maxLength": MOST_OF_A_KEY,
            "description": "Names it among those of its job; sent again, it counts once. "
            "The hash of its content, unless it is given.",
        },
    },
}
_LIST: dict[str, Any] = {
    "type": "object",
    "required": ["observations"],
    "additionalProperties": False,
    "properties": {
        "observations": {
            "type": "array",
            "items": _SCHEMA,
            "minItems": 1,
            "maxItems": MOST_OBSERVATIONS,
        }
    },
}


@router.post(
    "/v1/observations",
    summary="Measured steps of jobs",
    responses={200: {"model": ObservationsTaken}, **problems(400, 413, 415, 422, 501, 503)},
    openapi_extra=json_body(_LIST, OBSERVATION_EXAMPLES),
)
async def observe(request: Request) -> Response:
    """Keep measured steps; those that are believed count for every later answer about their job.

    What is answered is on disk. One observation that cannot be read is refused alone; one that
    cannot be true is kept in quarantine, with the reason. Jobs that were not registered are.
    """
    intake = cast(ObservationIntake, request.app.state.observation_intake)
    return json_response(await intake.take(await json_of(request)))


@router.get(
    "/v1/observations",
    summary="Stored observations, newest first",
    responses={200: {"model": ObservationsAnswer}, **problems(422, 503)},
)
async def observations(
    request: Request,
    job: Annotated[
        str | None,
        Query(description="Reference: those of this job and of the same with other batches."),
    ] = None,
    state: Annotated[ObservationState | None, Query(description="Those of this state.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """List observations in pages."""
    page = await dispatcher_of(request).threads.run(
        _page, dispatcher_of(request).state, job, state, cursor, limit
    )
    return page_response("observations", page, _entry)


@router.get(
    "/v1/accuracy",
    summary="Predicted against measured, newest first",
    responses={200: {"model": AccuracyAnswer}, **problems(422, 503)},
)
async def accuracy(
    request: Request,
    accelerator: Annotated[
        str | None, Query(description="Name or alias, or `mixed`; those of all unless given.")
    ] = None,
    cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
    limit: Limit = 100,
) -> Response:
    """Hold believed observations against what is predicted without the observations of their job.

    Each is predicted by the model that answers now. A page may hold fewer points than `limit`, even
    none, and still have a next one.
    """
    report = cast(AccuracyReport, request.app.state.accuracy_report)
    page = await report.page(accelerator=accelerator, cursor=cursor, limit=limit)
    return json_response(page.to_dict())


def _page(
    kept: State,
    ref: str | None,
    state: ObservationState | None,
    cursor: str | None,
    limit: int,
) -> Page[StoredObservation]:
    family = None
    if ref is not None:
        found = resolve_job_reference(ref, kept.references, pointer="/query/job")
        family = job_family(parse_job(found))
    return kept.observations.page(family=family, state=state, cursor=cursor, limit=limit)


def _entry(seen: StoredObservation) -> dict[str, Any]:
    return {
        "job": seen.job.ref,
        "key": seen.key,
        "placement": orjson.loads(seen.placement),
        "batch_size": seen.batch_size,
        "accumulation_steps": seen.accumulation_steps,
        "step_time_s": seen.step_time_s,
        "sync_time_s": seen.sync_time_s,
        "state": seen.state.value,
        "reason": seen.reason,
        "received_at": seen.received_at,
    }

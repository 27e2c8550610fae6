"""``POST``, ``GET``, ``PATCH`` and ``DELETE /v1/observations``, and ``GET /v1/accuracy``."""

from __future__ import annotations

from typing import Annotated, Any, cast

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response

from perfmodel.store.state.observation_records import ObservationState, StoredObservation
from service.access.access_policy import caller_of, is_administrator
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems
from service.observations.accuracy import AccuracyReport
from service.observations.intake import ObservationIntake
from service.observations.meant import Meant, state_of
from service.observations.retraction import Retraction
from service.routes.in_threads import in_threads
from service.routes.paging import Cursor, Limit, page_response
from service.schemas.answer_bodies import AccuracyAnswer
from service.schemas.question_bodies import ReportsRequest, StateRequest
from service.schemas.state_bodies import (
    ObservationsAnswer,
    ObservationsChanged,
    ObservationsRemoved,
    ObservationsTaken,
)

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
    },
    "one that ran out of memory": {
        "observations": [
            {
                "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 256},
                "placement": "T4",
                "out_of_memory": True,
                "key": "run-18/killed",
            },
        ]
    },
}


@router.post(
    "/v1/observations",
    summary="Measured steps of jobs",
    responses={200: {"model": ObservationsTaken}, **problems(400, 413, 415, 422, 501, 503)},
    openapi_extra=json_body(ReportsRequest, OBSERVATION_EXAMPLES),
)
async def observe(request: Request) -> Response:
    """Keep measured steps, and those that ran out of memory, for later answers about their job.

    What is answered is on disk. One observation that cannot be read is refused alone; one that
    cannot be true is kept in quarantine, with the reason. Jobs that were not registered are.
    """
    intake = cast(ObservationIntake, request.app.state.observation_intake)
    return json_response(await intake.take(await json_of(request), reporter=caller_of(request)))


def _meant(
    job: Annotated[
        str | None,
        Query(description="Reference: those of this job and of the same with other batches."),
    ] = None,
    key: Annotated[str | None, Query(description="Those of this key.")] = None,
    reporter: Annotated[
        str | None, Query(description="Those that this one sent: the identifier of a key.")
    ] = None,
    state: Annotated[ObservationState | None, Query(description="Those of this state.")] = None,
    before: Annotated[
        str | None, Query(description="Those that were received earlier than this (RFC 3339).")
    ] = None,
    after: Annotated[
        str | None, Query(description="Those that were received then or later (RFC 3339).")
    ] = None,
) -> Meant:
    return Meant(job=job, key=key, reporter=reporter, state=state, before=before, after=after)


#: Which observations are meant; all that is said has to apply.
MeantByQuery = Annotated[Meant, Depends(_meant)]


@router.get(
    "/v1/observations",
    summary="Stored observations, newest first",
    responses={200: {"model": ObservationsAnswer}, **problems(422, 503)},
)
@in_threads
def observations(
    request: Request, meant: MeantByQuery, cursor: Cursor = None, limit: Limit = 100
) -> Response:
    """List observations in pages."""
    kept = dispatcher_of(request).state
    page = kept.observations.page(meant.filter(kept.references), cursor=cursor, limit=limit)
    return page_response("observations", page, _entry)


@router.patch(
    "/v1/observations",
    summary="Leave observations out, or take them in again",
    responses={
        200: {"model": ObservationsChanged},
        **problems(400, 403, 413, 415, 422, 503),
    },
    openapi_extra=json_body(StateRequest, {"leave out": {"state": "excluded"}}),
)
async def change_observations(request: Request, meant: MeantByQuery) -> Response:
    """Leave out what counts, or take in what was left out; at least one parameter has to be said.

    Callers may do so with what they reported themselves, administrators with everything; these take
    in what is quarantined, too. Every later answer is as if it had always been so.
    """
    to = state_of(await json_of(request))
    meant.check_stated()
    retraction = _retraction(request)
    changed = await dispatcher_of(request).threads.run(retraction.move, meant, to)
    return json_response({"changed": changed})


@router.delete(
    "/v1/observations",
    summary="Remove observations",
    responses={200: {"model": ObservationsRemoved}, **problems(403, 422, 503)},
)
@in_threads
def remove_observations(request: Request, meant: MeantByQuery) -> Response:
    """Remove observations for good; at least one parameter has to be said.

    Callers may remove what they reported themselves, administrators everything. Every later answer
    is as if they had never been there.
    """
    meant.check_stated()
    return json_response({"removed": _retraction(request).remove(meant)})


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
    return json_response(page)


def _retraction(request: Request) -> Retraction:
    return Retraction(
        dispatcher_of(request).state,
        caller_of(request),
        is_administrator=is_administrator(request),
    )


def _entry(seen: StoredObservation) -> dict[str, Any]:
    return {
        "job": seen.job.ref,
        "key": seen.key,
        "placement": orjson.loads(seen.placement),
        "batch_size": seen.batch_size,
        "accumulation_steps": seen.accumulation_steps,
        "step_time_s": None if seen.ran_out else seen.step_time_s,
        "sync_time_s": seen.sync_time_s,
        "out_of_memory": seen.ran_out,
        "software": dict(seen.software),
        "state": seen.state.value,
        "reason": seen.reason,
        "reporter": seen.reporter,
        "received_at": seen.received_at,
        "expires_at": seen.expires_at,
    }

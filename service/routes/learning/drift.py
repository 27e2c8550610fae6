"""``/v1/drift``: whether answers still fit what is observed, and what to do where they do not."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request, Response

from perfmodel.campaigns.doubted import doubted_jobs, enter_doubted
from perfmodel.campaigns.policy import parse_policy
from perfmodel.feedback.drift_state import MOST_ALARMS
from perfmodel.json_values import as_object
from service.access.access_policy import caller_of
from service.dispatch.dispatcher import dispatcher_of
from service.feedback.drift_report import DriftReport
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems
from service.routes.in_threads import in_threads
from service.routes.learning.campaigns import POLICY_SCHEMA
from service.schemas.state_bodies import (
    AlarmsAcknowledgedAnswer,
    DriftAnswer,
    DriftCampaignsEntered,
)

router = APIRouter(prefix="/v1/drift", tags=["drift"])

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"policy": POLICY_SCHEMA},
    "additionalProperties": False,
}
_EXAMPLES: dict[str, Any] = {"within an hour": {"policy": {"budget_s": 3600}}}


@router.get(
    "",
    summary="Whether answers still fit what is observed",
    responses={200: {"model": DriftAnswer}, **problems(422, 503)},
)
async def drift(
    request: Request,
    ended: Annotated[
        int, Query(ge=0, le=MOST_ALARMS, description="Alarms that have ended, the newest.")
    ] = 20,
) -> Response:
    """Hold what was observed against what had been answered, by group, and say what is alarming.

    Each believed observation is compared once, soon after it came, with what would have been
    answered just before it counted, and with what the model that serves now says without any.
    """
    report = cast(DriftReport, request.app.state.drift_report)
    return json_response(await report.answer(ended=ended))


@router.post(
    "/campaign",
    summary="Measure what alarms doubt",
    status_code=201,
    responses={
        200: {"model": DriftCampaignsEntered, "description": "Made before, or nothing is doubted"},
        201: {"model": DriftCampaignsEntered},
        **problems(400, 413, 415, 422, 503),
    },
    openapi_extra=json_body(_SCHEMA, _EXAMPLES),
)
async def campaign(request: Request) -> Response:
    """Enter a campaign for each accelerator on which open alarms doubt jobs.

    Those come first that tell most, unless the policy says another order.
    """
    fields = as_object(
        await json_of(request), "", what="A campaign of what is doubted", known=("policy",)
    )
    stated = fields.get("policy")
    plain = {} if stated is None else as_object(stated, "/policy", what="A policy")
    policy = parse_policy({"order": "adaptive", **plain})
    state, caller = dispatcher_of(request).state, caller_of(request)

    def entered() -> dict[str, Any]:
        doubted = doubted_jobs(state.alarms.open_alarms(), state.jobs)
        found = enter_doubted(state.campaigns, doubted, policy=policy, caller=caller)
        listed = [
            {
                "id": one.name,
                "total": state.campaigns.counts(one.name).total,
                "created": one.created,
            }
            for one in found
        ]
        return {"campaigns": listed}

    answer = await dispatcher_of(request).threads.run(entered)
    created = any(one["created"] for one in answer["campaigns"])
    return json_response(answer, 201 if created else 200)


@router.post(
    "/acknowledge",
    summary="Say that alarms are known of",
    responses={200: {"model": AlarmsAcknowledgedAnswer}, **problems(422, 503)},
)
@in_threads
def acknowledge(
    request: Request,
    alarm: Annotated[
        str | None, Query(max_length=64, description="Its `id`; all open ones unless given.")
    ] = None,
    note: Annotated[str, Query(max_length=1_000, description="Kept with the alarm.")] = "",
) -> Response:
    """Note who knows of alarms; they stay open until the residuals are fine again."""
    alarms = dispatcher_of(request).state.alarms
    # Not every text can be asked of a database.
    if alarm is not None and not alarm.isalnum():
        return json_response({"acknowledged": 0})
    changed = alarms.acknowledge(alarm, by=caller_of(request), note=note or None)
    return json_response({"acknowledged": changed})

"""``/v1/campaigns``: enter workloads to be measured, watch them, cancel them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from perfmodel.campaigns.campaign_form import campaign_to_dict, task_to_dict
from perfmodel.campaigns.entering import enter_request
from perfmodel.campaigns.policy import MOST_TASKS, Order
from perfmodel.campaigns.progress import progress_of
from perfmodel.store.campaigns.campaign_records import Campaign, TaskState
from service.access.access_policy import caller_of
from service.campaigns.campaign_events import CampaignEvents
from service.campaigns.open_streams import EventStream, OpenStreams
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import json_of, json_response
from service.http.documentation import json_body, problems, schema_ref
from service.http.errors import not_found
from service.routes.in_threads import in_threads
from service.routes.paging import Cursor, Limit, page_response
from service.schemas.state_bodies import (
    CampaignEntered,
    CampaignEntry,
    CampaignsAnswer,
    CampaignShown,
    CampaignTasksAnswer,
)
from service.state.state import State
from service.versions.own_catalog import own_catalog_of

router = APIRouter(prefix="/v1/campaigns", tags=["campaigns"])

#: Longest time of one stream of events, seconds: a service that shall end waits for those it has.
MOST_STREAM_S = 60.0

_LISTS = {"minItems": 1, "maxItems": MOST_TASKS}
_POSITIVE = {"type": ["number", "null"], "exclusiveMinimum": 0}
_COUNT = {"type": ["integer", "null"], "minimum": 1}
POLICY_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"enum": [*(order.value for order in Order), None]},
        "seed": _COUNT,
        "budget_s": _POSITIVE,
        "reference": {"anyOf": [schema_ref("JobBody"), {"type": "null"}]},
        "reference_every": _COUNT,
        "drift_limit": _POSITIVE,
        "timeout_s": _POSITIVE,
        "memory_limit_bytes": _POSITIVE,
        "threads": _COUNT,
        "cares_about": {"type": ["array", "null"], "items": schema_ref("JobBody")},
    },
    "additionalProperties": False,
}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "jobs": {"type": "array", "items": schema_ref("JobBody"), **_LISTS},
        "accelerators": {"type": "array", "items": {"type": "string"}, **_LISTS},
        "policy": POLICY_SCHEMA,
        "title": {"type": "string", "maxLength": 200},
    },
    "required": ["jobs"],
    "additionalProperties": False,
}
_EXAMPLES: dict[str, Any] = {
    "two batches on every GPU there is": {
        "jobs": [
            {"model": "timm/resnet50", "mode": "training", "batch_size": size} for size in (32, 64)
        ],
        "accelerators": ["gpu"],
        "policy": {
            "budget_s": 3600,
            "reference": {"model": "zoo/resnet50-v1.5", "mode": "inference", "batch_size": 8},
        },
        "title": "residual networks",
    }
}
_EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["progress", "task", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
#: OpenAPI 3.1 does not say whether a schema is of the whole stream or of each event.
_STREAM = {"anyOf": [{"type": "string"}, _EVENT]}
_EVENTS = {"content": {"text/event-stream": {"schema": _STREAM}}}


@router.post(
    "",
    summary="Enter workloads to be measured",
    status_code=201,
    responses={
        200: {"model": CampaignEntered, "description": "Made before"},
        201: {"model": CampaignEntered},
        **problems(400, 413, 415, 422, 503),
    },
    openapi_extra=json_body(_SCHEMA, _EXAMPLES),
)
async def create(request: Request) -> Response:
    """Keep a campaign, whose workloads any worker with such a device then measures.

    The same campaign always has the same `id`; another `title` makes another one.
    """
    body = await json_of(request)
    state, caller = dispatcher_of(request).state, caller_of(request)
    # What this machine is called, it is nowhere else.
    catalog = own_catalog_of(request).catalog.with_local(None)

    def entered() -> tuple[dict[str, Any], bool]:
        found = enter_request(state.campaigns, body, catalog=catalog, caller=caller)
        campaign = state.campaigns.find(found.name)
        assert campaign is not None, "campaigns are never removed"
        return {**_entry(state, campaign), "created": found.created}, found.created

    answer, created = await dispatcher_of(request).threads.run(entered)
    return json_response(answer, 201 if created else 200)


@router.get(
    "",
    summary="Campaigns, newest first",
    responses={200: {"model": CampaignsAnswer}, **problems(422, 503)},
)
@in_threads
def campaigns(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """List campaigns with how far they are, in pages."""
    state = dispatcher_of(request).state
    page = state.campaigns.page(cursor=cursor, limit=limit)
    return page_response("campaigns", page, lambda campaign: _entry(state, campaign))


@router.get(
    "/{name}",
    summary="One campaign",
    responses={200: {"model": CampaignShown}, **problems(404, 503)},
)
@in_threads
def campaign(request: Request, name: str) -> Response:
    """Say how far a campaign is, when it ends, and how its machines drifted."""
    state = dispatcher_of(request).state
    references = state.campaign_references.of_campaign(name)
    return json_response({**_entry(state, _found(state, name)), "references": references})


@router.get(
    "/{name}/results",
    summary="What was measured",
    responses={200: {"model": CampaignTasksAnswer}, **problems(404, 422, 503)},
)
@in_threads
def results(
    request: Request,
    name: str,
    state: Annotated[TaskState | None, Query(description="In this state only.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """List the tasks of a campaign with what came of them, in pages, those entered last first."""
    kept = dispatcher_of(request).state
    _found(kept, name)
    page = kept.campaigns.tasks(name, state=state, cursor=cursor, limit=limit)
    return page_response("tasks", page, task_to_dict)


@router.get(
    "/{name}/events",
    summary="What happens to a campaign, as it happens",
    response_class=StreamingResponse,
    responses={200: {"description": "Server-sent events", **_EVENTS}, **problems(404, 422, 503)},
)
async def events(
    request: Request,
    name: str,
    seconds: Annotated[
        float, Query(gt=0, le=MOST_STREAM_S, description="Longest time of the stream.")
    ] = 30.0,
) -> Response:
    """Tell of a campaign until it ends: `progress` when that changes, `task` when one ends.

    A stream that ends before its campaign does is opened again by whoever still wants to know;
    browsers do so by themselves. The first events say how things stand.
    """
    state, threads = dispatcher_of(request).state, dispatcher_of(request).threads
    # Before the stream begins: afterwards nothing can be refused any more.
    await threads.run(_found, state, name)
    feed = CampaignEvents(state.campaigns, name)

    async def told() -> AsyncIterator[bytes]:
        async for event in feed.told(threads.run, seconds):
            yield event

    streams = cast(OpenStreams, request.app.state.campaign_streams)
    return EventStream(told(), streams, caller_of(request), headers={"Cache-Control": "no-cache"})


@router.delete(
    "/{name}",
    summary="End a campaign",
    responses={200: {"model": CampaignEntry}, **problems(404, 503)},
)
@in_threads
def cancel(request: Request, name: str) -> Response:
    """End a campaign: what waits is not begun, what runs is dropped, what is done stays."""
    state = dispatcher_of(request).state
    _found(state, name)
    state.campaigns.cancel(name)
    return json_response(_entry(state, _found(state, name)))


def _found(state: State, name: str) -> Campaign:
    # Not every text can be asked of a database.
    found = state.campaigns.find(name) if name.isalnum() else None
    if found is None:
        raise not_found()
    return found


def _entry(state: State, campaign: Campaign) -> dict[str, Any]:
    return campaign_to_dict(campaign, progress_of(campaign, state.campaigns.counts(campaign.name)))

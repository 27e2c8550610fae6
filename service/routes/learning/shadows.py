"""``/v1/models/{name}/{version}/shadow``: a version that answers beside the one that serves."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from perfmodel.registry.states import State
from service.access.access_policy import is_administrator
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import json_response
from service.http.documentation import problems
from service.routes.learning.models import Why, looked, registry_of
from service.schemas.state_bodies import ModelChangeEntry, ShadowAnswer

router = APIRouter(prefix="/v1/models", tags=["catalogue"])

Against = Annotated[
    str | None,
    Query(max_length=200, description="Name and version; by default the one compared with last."),
]


@router.get(
    "/{name}/{version}/shadow",
    summary="How a version differs from the one that serves, on what was asked",
    responses={200: {"model": ShadowAnswer}, **problems(404, 409, 422, 503)},
)
async def shadow(request: Request, name: str, version: str, against: Against = None) -> Response:
    """Compare what two versions answer to the questions that were asked last.

    Step times are compared without what was observed of the job; `answered_ratio` and
    `answered_distance` are those of answers as people get them. Where steps of the same job on the
    same placement were observed, the error of both is told. Single questions, which are those of
    everybody who asks, are named to administrators alone.
    """
    dispatcher = dispatcher_of(request)
    registry = dispatcher.source.registry
    report = await looked(
        request, lambda: dispatcher.shadow.report(registry, name, version, against)
    )
    if not is_administrator(request):
        report = replace(report, most_different=(), failed=(), observed=())
    return json_response(asdict(report))


@router.post(
    "/{name}/{version}/shadow",
    summary="Let a version answer beside the one that serves",
    responses={200: {"model": ModelChangeEntry}, **problems(404, 409, 422, 503)},
)
async def start_shadow(request: Request, name: str, version: str, why: Why = "") -> Response:
    """Let a version answer what was asked last, and what is asked from now on; nobody is told.

    It ends when the version is promoted or refused. One that is a shadow already goes on; if its
    comparison was given up it is tried again.
    """
    registry, dispatcher = registry_of(request), dispatcher_of(request)
    change = await looked(request, lambda: dispatcher.shadow.begin(registry, name, version, why))
    # The list of versions says so at once; other workers and hosts follow.
    await dispatcher.watch.reload()
    return json_response(asdict(change))


@router.post(
    "/{name}/{version}/refuse",
    summary="Decide that a version shall not serve",
    responses={200: {"model": ModelChangeEntry}, **problems(404, 409, 422, 503)},
)
async def refuse(request: Request, name: str, version: str, why: Why = "") -> Response:
    """Refuse a version that does not serve; to promote it takes `force` from then on."""
    registry = registry_of(request)
    change = await looked(request, lambda: registry.judge(name, version, State.REFUSED, why=why))
    await dispatcher_of(request).watch.reload()
    return json_response(asdict(change))

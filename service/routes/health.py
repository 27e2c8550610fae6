"""Liveness, readiness, and ``GET /metrics``."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from service.dispatch.dispatcher import dispatcher_of
from service.http.documentation import problems
from service.schemas.answer_bodies import HealthAnswer

router = APIRouter(tags=["health"])


@router.get("/v2/health/live", summary="Whether the process answers", response_model=HealthAnswer)
async def live() -> HealthAnswer:
    """Tell that the process answers."""
    return HealthAnswer(status="live")


@router.get(
    "/v2/health/ready",
    summary="Whether questions are answered with all that is installed",
    response_model=HealthAnswer,
    responses=problems(503),
)
async def ready(request: Request) -> HealthAnswer:
    """Tell whether questions are answered with all that is installed.

    ``degraded`` still answers: something is wrong, the detail says what.
    """
    if request.app.state.draining.has_begun:
        raise HTTPException(503, "The service is about to end. Ask another one.")
    wrong = dispatcher_of(request).ill_health
    return HealthAnswer(status="degraded" if wrong else "ready", detail=wrong)


@router.get(
    "/metrics",
    summary="Counts, latencies and errors, in the text format of Prometheus",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
async def metrics(request: Request) -> Response:
    """Write down everything that is counted."""
    counted = dispatcher_of(request).metrics
    return Response(counted.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})

"""Liveness and readiness."""

from __future__ import annotations

from fastapi import APIRouter, Request

from service.routes.requests import desk_of
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
)
async def ready(request: Request) -> HealthAnswer:
    """Tell whether questions are answered with all that is installed.

    ``degraded`` still answers: something is wrong, the detail says what.
    """
    problems = list(desk_of(request).estimator.problems)
    return HealthAnswer(status="degraded" if problems else "ready", detail=problems)

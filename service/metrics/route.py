"""``GET /metrics``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from service.metrics.registry import Metrics

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    summary="Counts, latencies and errors, in the text format of Prometheus",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    response_class=Response,
)
async def metrics(request: Request) -> Response:
    """Write down everything that is counted."""
    counted: Metrics = request.app.state.metrics
    return Response(counted.exposition(), headers={"Content-Type": CONTENT_TYPE_LATEST})

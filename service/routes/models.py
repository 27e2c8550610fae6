"""``GET /v1/models``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.etag import etagged_response
from service.routes.requests import desk_of
from service.schemas import ModelsAnswer

router = APIRouter(tags=["catalogue"])


@router.get(
    "/v1/models",
    summary="What answers, and what is wrong with what is installed",
    responses={200: {"model": ModelsAnswer}},
)
async def models(request: Request) -> Response:
    """List the trained models that were found, which of them answers, and the damaged ones."""
    estimator = desk_of(request).estimator
    return etagged_response(
        request,
        {
            "serving": estimator.model_version,
            "models": list(estimator.models),
            "problems": list(estimator.problems),
        },
    )

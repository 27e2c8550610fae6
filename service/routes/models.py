"""``GET /v1/models`` and ``POST /v1/models/reload``."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import etagged_response, json_response
from service.http.documentation import problems
from service.schemas.state_bodies import ModelsAnswer, ReloadAnswer

router = APIRouter(tags=["catalogue"])


@router.get(
    "/v1/models",
    summary="What answers, and what is wrong with what is installed",
    responses={200: {"model": ModelsAnswer}},
)
async def models(request: Request) -> Response:
    """List the trained models that were found, which of them answers, and the damaged ones."""
    dispatcher = dispatcher_of(request)
    estimator = dispatcher.estimator
    return etagged_response(
        request,
        {
            "serving": estimator.model_version,
            "loaded": dispatcher.models.loaded,
            "models": list(estimator.models),
            "problems": list(estimator.problems),
        },
    )


@router.post(
    "/v1/models/reload",
    summary="Let the best version in the folder serve",
    responses={200: {"model": ReloadAnswer}, **problems(503)},
)
async def reload(request: Request) -> Response:
    """Look into the folder of models now; other workers and hosts look by themselves."""
    swap = await dispatcher_of(request).watch.reload()
    return json_response(
        {
            "serving": swap.serving,
            "previous": swap.previous,
            "swapped": swap.serving != swap.previous,
            "problems": list(swap.problems),
        }
    )

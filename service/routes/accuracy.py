"""``GET /v1/accuracy``."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Query, Request, Response

from perfmodel.store.sql.shared_store import MOST_ITEMS
from service.accuracy_desk import AccuracyDesk
from service.answers import json_response
from service.documentation import problems
from service.schemas.answer_bodies import AccuracyAnswer

router = APIRouter(tags=["observations"])


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
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS)] = 100,
) -> Response:
    """Hold believed observations against what is predicted without the observations of their job.

    Each is predicted by the model that answers now. A page may hold fewer points than `limit`, even
    none, and still have a next one.
    """
    desk = cast(AccuracyDesk, request.app.state.accuracy_desk)
    page = await desk.page(accelerator=accelerator, cursor=cursor, limit=limit)
    return json_response(page.to_dict())

"""``POST /v1/explain``."""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter, Request, Response

from service.answers import json_response
from service.documentation import json_body, problems
from service.explain_desk import ExplainDesk
from service.routes.requests import json_body_of, waits_of
from service.schemas.answer_bodies import ExplainAnswer
from service.schemas.question_bodies import ExplainRequest

router = APIRouter(tags=["answers"])

_JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}

EXPLAIN_EXAMPLES: dict[str, Any] = {
    "one accelerator": {"job": _JOB, "placement": "A100-SXM4-80GB", "most": 10},
    "observed": {
        "job": _JOB,
        "placement": "8xA100-SXM4-80GB",
        "observations": [{"placement": "A100-SXM4-80GB", "batch_size": 64, "step_time_s": 0.15}],
    },
}


@router.post(
    "/v1/explain",
    summary="Why an answer is what it is",
    responses={200: {"model": ExplainAnswer}, **problems(400, 409, 413, 415, 422, 501, 503, 504)},
    openapi_extra=json_body(ExplainRequest, EXPLAIN_EXAMPLES),
)
async def explain(request: Request) -> Response:
    """Divide an answer over the operators of the step, and trace it back to the roofline."""
    body = await json_body_of(request)
    desk = cast(ExplainDesk, request.app.state.explain_desk)
    return json_response((await desk.explain(body, waits_of(request))).to_dict())

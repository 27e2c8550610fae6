"""``POST /v1/curve`` and ``POST /v1/rank``: one job over many placements."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from service.answers import curve_to_dict, json_response, ranking_to_dict
from service.documentation import json_body, problems
from service.etag import etagged_response
from service.routes.requests import desk_of, json_body_of, waits_of
from service.schemas.answer_bodies import CurveAnswer, RankAnswer
from service.schemas.question_bodies import CurveRequest, RankRequest

router = APIRouter(tags=["answers"])

_JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}

CURVE_EXAMPLES: dict[str, Any] = {
    "doubling": {"job": _JOB, "accelerator": "A100-SXM4-80GB", "most": 64},
    "stated counts": {
        "job": _JOB,
        "accelerator": "T4",
        "counts": [1, 2, 4, 8, 12],
        "accelerators_per_host": 4,
        "network": "eth-25g",
        "observations": [{"placement": "T4", "batch_size": 64, "step_time_s": 0.5}],
    },
}

RANK_EXAMPLES: dict[str, Any] = {
    "by cost": {
        "job": _JOB,
        "placements": ["V100-SXM2-16GB", "4xA100-SXM4-80GB"],
        "by": "cost",
        "prices": {"V100-SXM2-16GB": 1.0, "A100-SXM4-80GB": 3.0},
        "constraints": {"fits": True, "total_samples": 1e8, "deadline_s": 86400.0},
    },
    "plans": {
        "job": {
            "model": "zoo/megatron-gpt",
            "model_kwargs": {"num_layers": 24, "hidden_size": 2048, "num_heads": 16},
            "mode": "training",
            "batch_size": 1,
            "precision": "fp16",
            "optimizer": "adam",
        },
        "placement": "8x(8xA100-SXM4-80GB)@8xib-200g",
        "search": {"global_batch_size": 512, "most": 5},
    },
}


@router.post(
    "/v1/curve",
    summary="Throughput of one job over the number of accelerators",
    responses={200: {"model": CurveAnswer}, **problems(400, 409, 413, 415, 422, 501, 503, 504)},
    openapi_extra=json_body(CurveRequest, CURVE_EXAMPLES),
)
async def curve(request: Request) -> Response:
    """Answer a job's throughput over the count, in columns."""
    body = await json_body_of(request)
    answer = await desk_of(request).curve(body, waits_of(request))
    return etagged_response(request, curve_to_dict(answer))


@router.post(
    "/v1/rank",
    summary="Placements of one job, or parallel plans on one placement, best first",
    responses={200: {"model": RankAnswer}, **problems(400, 409, 413, 415, 422, 501, 503, 504)},
    openapi_extra=json_body(RankRequest, RANK_EXAMPLES),
)
async def rank(request: Request) -> Response:
    """Rank placements by throughput, goodput, cost or energy; or search plans."""
    body = await json_body_of(request)
    return json_response(ranking_to_dict(await desk_of(request).rank(body, waits_of(request))))

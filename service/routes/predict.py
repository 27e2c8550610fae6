"""``POST /v1/predict`` and ``POST /v1/matrix``."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from service.answers import json_response, matrix_to_dict
from service.documentation import json_body, problems
from service.etag import etagged_response
from service.routes.requests import desk_of, json_body_of, waits_of
from service.schemas.answer_bodies import MatrixAnswer, PredictAnswer
from service.schemas.question_bodies import MatrixRequest, PredictRequest

router = APIRouter(tags=["answers"])

_JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}

PREDICT_EXAMPLES: dict[str, Any] = {
    "short": {"job": _JOB, "placement": "8xA100-SXM4-80GB"},
    "long": {
        "job": {
            **_JOB,
            "model_kwargs": {"img_size": 224},
            "precision": "amp_fp16",
            "optimizer": "momentum",
            "memory_format": "channels_last",
        },
        "placement": {
            "nodes": [{"accelerator": "H100-SXM5-80GB", "count": 8, "repeat": 2}],
            "network": {"bandwidth_bytes_per_s": 50e9, "latency_s": 2e-6},
            "plan": {"data": 16},
        },
    },
}

MATRIX_EXAMPLES: dict[str, Any] = {
    "two by two": {
        "jobs": [_JOB, {"model": "timm/resnet18", "mode": "inference", "batch_size": 32}],
        "placements": ["V100-SXM2-16GB", "4xA100-SXM4-80GB"],
    }
}


@router.post(
    "/v1/predict",
    summary="Throughput of one job on one placement",
    responses={200: {"model": PredictAnswer}, **problems(400, 409, 413, 415, 422, 501, 503, 504)},
    openapi_extra=json_body(PredictRequest, PREDICT_EXAMPLES),
)
async def predict(request: Request) -> Response:
    """Answer what throughput a job will reach on a placement."""
    body = await json_body_of(request)
    return json_response(await desk_of(request).predict(body, waits_of(request)))


@router.post(
    "/v1/matrix",
    summary="Throughput of every pair of some jobs and some placements",
    responses={200: {"model": MatrixAnswer}, **problems(400, 409, 413, 415, 422, 501, 503, 504)},
    openapi_extra=json_body(MatrixRequest, MATRIX_EXAMPLES),
)
async def matrix(request: Request) -> Response:
    """Answer every pair in columns; a bad job or placement costs its own cells only."""
    body = await json_body_of(request)
    answer = await desk_of(request).matrix(body, waits_of(request))
    return etagged_response(request, matrix_to_dict(answer))

"""Questions about jobs on placements, and about kernels on accelerators."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from perfmodel.errors import PerfModelError
from perfmodel.estimator import CellError, Table, basis_names
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.tables.ranking import Ranking
from perfmodel.placement.plans.plan_search import PlanRanking, RankedPlan
from perfmodel.placement.topology.parse import format_placement, placement_to_dict
from service.answering.questions import DEADLINE_HEADER, MOST_ONE_BY_ONE
from service.dispatch.dispatcher import dispatcher_of
from service.http.bodies import etagged_response, header_of, json_body_of, json_response
from service.http.documentation import json_body, problems
from service.http.errors import problem_of
from service.schemas.answer_bodies import (
    CurveAnswer,
    ExplainAnswer,
    KernelsAnswer,
    MatrixAnswer,
    PlacementsAnswer,
    PredictAnswer,
    RankAnswer,
)
from service.schemas.question_bodies import (
    CurveRequest,
    ExplainRequest,
    KernelsRequest,
    MatrixRequest,
    PlacementsRequest,
    PredictRequest,
    RankRequest,
)

router = APIRouter(tags=["answers"])

#: Cells of a matrix that is written down in milliseconds.
_MOST_ON_LOOP = 4_096

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

PLACEMENTS_EXAMPLES: dict[str, Any] = {
    "names of others": {"placements": ["p4d.24xlarge", "A100-SXM4-80GB/3g.40gb", "4xT4 power=50"]}
}

EXPLAIN_EXAMPLES: dict[str, Any] = {
    "one accelerator": {"job": _JOB, "placement": "A100-SXM4-80GB", "most": 10},
    "observed": {
        "job": _JOB,
        "placement": "8xA100-SXM4-80GB",
        "observations": [{"placement": "A100-SXM4-80GB", "batch_size": 64, "step_time_s": 0.15}],
    },
}

KERNELS_EXAMPLES: dict[str, Any] = {
    "products": {
        "kernels": [
            {"op": "gemm", "precision": "bf16", "shape": {"m": 8192, "n": 8192, "k": 8192}},
            {
                "op": "attention_decode",
                "precision": "bf16",
                "shape": {
                    "batch": 64, "context": 4096, "heads": 64, "kv_heads": 8, "head_dim": 128,
                },
            },
        ],
        "accelerators": ["A100-SXM4-80GB", "H100-SXM5-80GB"],
    },
    "a collective": {
        "kernels": [{"op": "all_reduce", "shape": {"size_bytes": 1e9, "ranks": 8}}],
        "accelerators": ["H100-SXM5-80GB"],
    },
}  # fmt: skip


def _documented(
    asked: type[BaseModel], answered: type[BaseModel], examples: dict[str, Any]
) -> dict[str, Any]:
    """Return what a route says of itself that answers a question."""
    return {
        "responses": {
            200: {"model": answered},
            **problems(400, 409, 413, 415, 422, 501, 503, 504),
        },
        "openapi_extra": json_body(asked, examples),
    }


@router.post(
    "/v1/predict",
    summary="Throughput of one job on one placement",
    **_documented(PredictRequest, PredictAnswer, PREDICT_EXAMPLES),
)
async def predict(request: Request) -> Response:
    """Answer what throughput a job will reach on a placement."""
    body = await json_body_of(request)
    return json_response(
        await dispatcher_of(request).predict(body, header_of(request.scope, DEADLINE_HEADER))
    )


@router.post(
    "/v1/matrix",
    summary="Throughput of every pair of some jobs and some placements",
    **_documented(MatrixRequest, MatrixAnswer, MATRIX_EXAMPLES),
)
async def matrix(request: Request) -> Response:
    """Answer every pair in columns; a bad job or placement costs its own cells only."""
    body = await json_body_of(request)
    answer = await dispatcher_of(request).matrix(body, header_of(request.scope, DEADLINE_HEADER))
    if answer.answered.size <= _MOST_ON_LOOP:
        return _matrix_response(request, answer)
    return await asyncio.to_thread(_matrix_response, request, answer)


@router.post(
    "/v1/curve",
    summary="Throughput of one job over the number of accelerators",
    **_documented(CurveRequest, CurveAnswer, CURVE_EXAMPLES),
)
async def curve(request: Request) -> Response:
    """Answer a job's throughput over the count, in columns."""
    body = await json_body_of(request)
    answer = await dispatcher_of(request).curve(body, header_of(request.scope, DEADLINE_HEADER))
    return etagged_response(request, answer.to_dict())


@router.post(
    "/v1/rank",
    summary="Placements of one job, or parallel plans on one placement, best first",
    **_documented(RankRequest, RankAnswer, RANK_EXAMPLES),
)
async def rank(request: Request) -> Response:
    """Rank placements by throughput, goodput, cost or energy; or search plans."""
    body = await json_body_of(request)
    answer = await dispatcher_of(request).rank(body, header_of(request.scope, DEADLINE_HEADER))
    return json_response(_ranking_to_dict(answer))


@router.post(
    "/v1/placements",
    summary="Placements as they are read, and what a job holds by them",
    responses={200: {"model": PlacementsAnswer}, **problems(400, 413, 415, 422, 503)},
    openapi_extra=json_body(PlacementsRequest, PLACEMENTS_EXAMPLES),
)
async def placements(request: Request) -> Response:
    """Read placements in any form: their accelerators, what they may draw, the usual precision."""
    found = await dispatcher_of(request).placements(await json_body_of(request))
    wrong = [(at, one) for at, one in enumerate(found) if isinstance(one, PerfModelError)]
    content = {
        "placements": [None if isinstance(one, PerfModelError) else _facts(one) for one in found],
        "errors": [
            {"placement": at, **_problem_in_list(error, placement=at)} for at, error in wrong
        ],
    }
    return json_response(content)


@router.post(
    "/v1/explain",
    summary="Why an answer is what it is",
    **_documented(ExplainRequest, ExplainAnswer, EXPLAIN_EXAMPLES),
)
async def explain(request: Request) -> Response:
    """Divide an answer over the operators of the step, and trace it back to the roofline."""
    body = await json_body_of(request)
    answer = await dispatcher_of(request).explain(body, header_of(request.scope, DEADLINE_HEADER))
    return json_response(answer.to_dict())


@router.post(
    "/v1/kernels",
    summary="Time of single kernels and collectives by their shape",
    responses={200: {"model": KernelsAnswer}, **problems(400, 413, 415, 422, 501, 503)},
    openapi_extra=json_body(KernelsRequest, KERNELS_EXAMPLES),
)
async def kernels(request: Request) -> Response:
    """Answer every pair of a kernel and an accelerator; a bad one costs its own pairs only."""
    body = await json_body_of(request)
    answer = await dispatcher_of(request).kernels(body)
    return json_response(answer.to_dict(problem_of))


def _matrix_response(request: Request, matrix: Table) -> Response:
    return etagged_response(request, _matrix_to_dict(matrix))


def _matrix_to_dict(matrix: Table) -> dict[str, Any]:
    """Return a matrix as columns: lists of one row a job, one element a placement."""
    jobs, placements = matrix.answered.shape
    return {
        "jobs": jobs,
        "placements": placements,
        "samples_per_second": matrix.samples_per_second,
        "low": matrix.low,
        "high": matrix.high,
        "coverage": matrix.coverage,
        "step_time_s": matrix.step_time_s,
        "compute_time_s": matrix.compute_time_s,
        "sync_time_s": matrix.sync_time_s,
        "peak_bytes": matrix.peak_bytes,
        # Of a memory that is not known it may still be known that it ran out.
        "fits": _or_null(
            matrix.fits, matrix.answered & (np.isfinite(matrix.peak_bytes) | ~matrix.fits)
        ),
        "basis": basis_names(matrix.basis),
        "out_of_distribution": _or_null(matrix.out_of_distribution, matrix.answered),
        "status": [["ok" if cell else "error" for cell in row] for row in matrix.answered.tolist()],
        "errors": [_cell_error(error) for error in matrix.errors[:MOST_ONE_BY_ONE]],
        "unpriced_operators": matrix.unpriced_operators,
        "model_version": matrix.model_version,
        "warnings": (*matrix.warnings, *_said_of_more(len(matrix.errors))),
    }


def _said_of_more(errors: int) -> tuple[str, ...]:
    """Say that more is wrong with a matrix than is told."""
    more = errors - MOST_ONE_BY_ONE
    return (f"Of {errors} errors {MOST_ONE_BY_ONE} are listed.",) if more > 0 else ()


def _ranking_to_dict(ranking: Ranking | PlanRanking) -> dict[str, Any]:
    """Return a ranking of placements or of plans, best first."""
    if isinstance(ranking, PlanRanking):
        return {
            "plans": [_plan(plan) for plan in ranking.plans],
            "considered": ranking.considered,
            "too_large": ranking.too_large,
            "why_none": ranking.why_none,
            "model_version": ranking.model_version,
            "warnings": ranking.warnings,
        }
    return {
        "best": ranking.best,
        "left_out": ranking.left_out,
        "errors": [
            {"placement": position, **problem_of(error)}
            for position, error in ranking.errors.items()
        ],
        "model_version": ranking.model_version,
        "warnings": ranking.warnings,
    }


def _plan(one: RankedPlan) -> dict[str, Any]:
    choice = one.choice
    plan = {**asdict(choice.plan), "schedule": choice.plan.schedule.value}
    plan["batch_split"] = choice.plan.batch_split.value
    return {
        "plan": plan,
        "batch_size": choice.micro_batch,
        "accumulation_steps": choice.micro_batches,
        "activation_checkpointing": choice.checkpointing.name.lower(),
        "step_time_s": one.step_time_s,
        "samples_per_second": one.samples_per_second,
        "bubble_s": one.bubble_s,
        "exposed_communication_s": one.exposed_communication_s,
        "memory_bytes": one.memory_bytes,
        "reason": one.reason,
    }


def _or_null(
    flags: npt.NDArray[np.bool_], answered: npt.NDArray[np.bool_]
) -> list[list[bool | None]]:
    filled = flags.astype(object)
    filled[~answered] = None
    rows: list[list[bool | None]] = filled.tolist()
    return rows


def _cell_error(cell: CellError) -> dict[str, Any]:
    position = {"job": cell.job, "placement": cell.placement}
    return {**position, **_problem_in_list(cell.error, **position)}


def _problem_in_list(error: PerfModelError, **positions: int | None) -> dict[str, Any]:
    """Return what is wrong with jobs and placements that are read alone, and stand in lists."""
    content = problem_of(error)
    for item in content["errors"]:
        for word, position in positions.items():
            head, _, rest = item["pointer"].removeprefix("/").partition("/")
            if position is not None and head == word:
                item["pointer"] = f"/{word}s/{position}" + (f"/{rest}" if rest else "")
    return content


def _facts(placement: ResolvedPlacement) -> dict[str, Any]:
    """Return a placement as it was read, and what a job holds by it."""
    short = format_placement(placement.named)
    return {
        "placement": placement_to_dict(placement.named),
        "text": short if isinstance(short, str) else None,
        "kinds": [
            {
                "accelerator": kind.accelerator.name,
                "count": kind.count,
                "whole_accelerators": kind.whole_accelerators,
            }
            for kind in placement.kinds
        ],
        "power_w": placement.power_w,
        "usual_precision": placement.usual_precision,
        "warnings": placement.warnings,
    }

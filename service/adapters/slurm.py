"""``POST /v1/adapters/slurm``: which partition runs a job best, and how long it will take.

The answer is plain text, a word and a value a line, so that a script inside Slurm's controller
needs no parser of JSON::

    partition=a100
    time_limit_min=95
    unanswered=old,test

The last line names partitions whose accelerator nobody knows, or on which nothing is predicted.
Everything else about the answer is in ``POST /v1/rank``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import Table
from perfmodel.graph.job import Job
from perfmodel.json_values import (
    as_count,
    as_number,
    as_object,
    as_text,
    shown,
)
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Placement
from perfmodel.requests import parse_job
from perfmodel.types import RUNG, Basis
from service.dispatch.dispatcher import Dispatcher, dispatcher_of
from service.http.bodies import json_of
from service.http.documentation import json_body, problems

router = APIRouter(tags=["schedulers"])

_ROUTE = "/v1/adapters/slurm"

_FIELDS = ("job", "total_samples", "nodes", "gpus_per_node", "candidates")
#: A limit is that much longer than the slow end of the prediction; Slurm ends a job at its limit.
_MARGIN = 1.2
#: What a job takes besides its steps: start, data, a last checkpoint.
_BESIDES_S = 300.0

EXAMPLE: dict[str, Any] = {
    "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    "total_samples": 1e8,
    "nodes": 1,
    "gpus_per_node": 4,
    "candidates": {"old": "V100-SXM2-16GB", "new": "A100-SXM4-80GB"},
}


class SlurmRequest(BaseModel):
    """A job and the partitions that it may run in."""

    job: dict[str, Any] | str = Field(description="A job, or the reference of a registered one.")
    candidates: dict[str, str] = Field(description="Accelerator of each partition.")
    total_samples: float | None = Field(default=None, description="Of the whole job; for a limit.")
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=1, ge=1)


@dataclass(frozen=True, kw_only=True)
class _Asked:
    job: Job
    total_samples: float | None
    partitions: tuple[str, ...]
    placements: tuple[Placement, ...]


@router.post(
    _ROUTE,
    summary="Partition and time limit of a Slurm job, as plain text",
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "description": "`partition=NAME`, and `time_limit_min=MINUTES` where the number of "
            "samples is known, and something of the job. Neither where the job fits in none. "
            "`unanswered=NAME,NAME` where some partitions have no answer.",
        },
        **problems(400, 404, 413, 415, 422, 501, 503),
    },
    openapi_extra=json_body(SlurmRequest.model_json_schema(), {"two partitions": EXAMPLE}),
)
async def choose(request: Request) -> Response:
    """Choose the partition with the highest throughput among those where the job fits."""
    question = await json_of(request)
    text = await dispatcher_of(request).threads.run(_choose, dispatcher_of(request), question)
    return Response(text, media_type="text/plain")


def _choose(dispatcher: Dispatcher, question: Any) -> str:
    answerer = dispatcher.models.serving
    asked = _read(answerer.resolved(question))
    matrix = answerer.row(asked.job, asked.placements)
    dispatcher.metrics.table(_ROUTE, matrix.basis)
    dispatcher.shadow.asked.note_row(question["job"], asked.placements)
    if not matrix.answered.any():
        raise _reason(matrix, asked)
    lines = _chosen(matrix, asked)
    unanswered = [
        name for column, name in enumerate(asked.partitions) if not matrix.answered[0, column]
    ]
    if unanswered:
        lines.append(f"unanswered={','.join(unanswered)}")
    return "".join(f"{line}\n" for line in lines)


def _chosen(matrix: Table, asked: _Asked) -> list[str]:
    best = _best(matrix)
    if best is None:
        return []
    lines = [f"partition={asked.partitions[best]}"]
    # Of a job of which nothing is known, no limit either: Slurm ends it there.
    if asked.total_samples is not None and matrix.basis[0, best] != RUNG[Basis.DEFAULT]:
        slowest_s = asked.total_samples / float(matrix.low[0, best])
        lines.append(f"time_limit_min={math.ceil((slowest_s * _MARGIN + _BESIDES_S) / 60)}")
    return lines


def _reason(matrix: Table, asked: _Asked) -> PerfModelError:
    """Return why there is no answer in any partition: the job, or the first of them."""
    first = min(matrix.errors, key=lambda one: (one.placement is not None, one.placement or 0))
    if first.placement is not None and isinstance(first.error, InvalidInputError):
        first.error.pointer = f"/candidates/{asked.partitions[first.placement]}"
    return first.error


def _best(matrix: Table) -> int | None:
    rates = matrix.samples_per_second[0].tolist()
    open_to_it = [
        column
        for column in range(len(rates))
        if matrix.answered[0, column] and matrix.fits[0, column]
    ]
    # Of equals the first: the administrator lists what is to be preferred first.
    return max(open_to_it, key=lambda column: rates[column], default=None)


def _read(question: Any) -> _Asked:
    fields = as_object(question, "", what="A request", known=_FIELDS)
    for name in ("job", "candidates"):
        if fields.get(name) is None:
            raise InvalidInputError(f"A request needs the field {name!r}.", pointer=f"/{name}")
    what = 'candidates, the accelerator of each partition such as {"new": "A100-SXM4-80GB"},'
    candidates = as_object(fields["candidates"], "/candidates", what=what)
    if not candidates:
        raise InvalidInputError(f"{what} must not be empty; got {{}}.", pointer="/candidates")
    for name in candidates:
        if not name or not name.isprintable() or "," in name:
            raise InvalidInputError(
                "The name of a partition has printable characters and no comma; got "
                f"{shown(name)}.",
                pointer="/candidates",
            )
    nodes, gpus = (_count(fields, name) for name in ("nodes", "gpus_per_node"))
    total = fields.get("total_samples")
    return _Asked(
        job=parse_job(fields["job"]),
        total_samples=None
        if total is None
        else as_number("total_samples", total, "/total_samples"),
        partitions=tuple(candidates),
        placements=tuple(
            parse_placement(_spread(name, value, nodes, gpus), pointer=f"/candidates/{name}")
            for name, value in candidates.items()
        ),
    )


def _spread(partition: str, accelerator: Any, nodes: int, gpus: int) -> dict[str, Any]:
    name = as_text(partition, accelerator, f"/candidates/{partition}")
    return {"nodes": [{"accelerator": name, "count": gpus, "repeat": nodes}]}


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    return 1 if value is None else as_count(name, value, f"/{name}")

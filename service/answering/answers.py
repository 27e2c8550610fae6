"""Answers about many placements as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.estimator import CellError, Table, basis_names
from perfmodel.estimator.tables.ranking import Ranking
from perfmodel.placement.plans.plan_search import PlanRanking, RankedPlan
from service.http.errors import problem_of


def matrix_to_dict(matrix: Table) -> dict[str, Any]:
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
        "errors": [_cell_error(error) for error in matrix.errors],
        "unpriced_operators": matrix.unpriced_operators,
        "model_version": matrix.model_version,
        "warnings": matrix.warnings,
    }


def ranking_to_dict(ranking: Ranking | PlanRanking) -> dict[str, Any]:
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
    content = problem_of(cell.error)
    for item in content["errors"]:
        # Jobs and placements are read alone; in a matrix their pointers start at the list.
        for word, position in (("job", cell.job), ("placement", cell.placement)):
            head, _, rest = item["pointer"].removeprefix("/").partition("/")
            if position is not None and head == word:
                item["pointer"] = f"/{word}s/{position}" + (f"/{rest}" if rest else "")
    return {"job": cell.job, "placement": cell.placement, **content}

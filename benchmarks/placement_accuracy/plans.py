"""Judge plans on published training of transformers: splits on one host, shards on many.

Splits (Megatron on 1 to 8 accelerators) are answered by the equations and the trees on what they
leave; model sizes, and then widths, are left out. Sharded steps (MPT of nine sizes on 8 to 512
accelerators) are answered by the equations alone; model sizes, and then devices, are left out.
Constants of every fold are fitted on its other groups; nothing is chosen on what is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from placement_accuracy.line import Line
from placement_accuracy.plan_folds import METHODS, Split, evaluate_plans
from placement_accuracy.plans_answered import answered_line

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.plans.plan_constants import PlanConstants, Stack
from perfmodel.placement.plans.plan_step import plan_step
from perfmodel.training.placement_fits.fit_plans import (
    FORMATS,
    constants_of,
    published,
    shared_start,
)
from perfmodel.training.placement_rows.plan_rows import PlanRows, plan_rows

TARGET = 0.08
_FAST_FOLDS = 2
#: Steps that are asked as whole answers.
_ANSWERS, _FAST_ANSWERS = 24, 6


def evaluate(data: Path, *, fast: bool = False) -> list[Line]:
    """Return one line for each question about plans that the data can answer."""
    return [*_splits(data, fast=fast), *_shards(data), *_answered(data, fast=fast)]


def _splits(data: Path, *, fast: bool) -> Iterator[Line]:
    records = published(data, FORMATS[Stack.MEGATRON])
    if not records:
        return
    questions: tuple[tuple[Split, str], ...] = (("size", "model size"), ("width", "width"))
    for split, words in questions:
        folds = _FAST_FOLDS if fast else None
        found = evaluate_plans(records, split=split, folds=folds, intervals=not fast)
        yield Line(
            name=f"plans-vtrain-{split}",
            title=f"GPT training under all plans on 1 to 8 A100 (vTrain), unseen {words}",
            measured=found.measured_s,
            predicted=found.predicted_s["plan"],
            groups=found.groups,
            jobs=[_job(records[row].job_type, found.groups[i]) for i, row in enumerate(found.rows)],
            baselines={name: found.predicted_s[name] for name in METHODS if name != "plan"},
            target=TARGET,
            low=None if fast else found.low_s,
            high=None if fast else found.high_s,
            note="Beyond the widths learned from, the equations answer alone.",
        )


def _job(job_type: str, group: str) -> str:
    return f"{job_type}-{group}"


def _shards(data: Path) -> Iterator[Line]:
    rows = plan_rows(published(data, FORMATS[Stack.TORCH]), Stack.TORCH)
    if rows is None:
        return
    other = plan_rows(published(data, FORMATS[Stack.MEGATRON]), Stack.MEGATRON)
    start = None if other is None else shared_start(constants_of(other))
    questions = (("size", "each model size", rows.sizes), ("device", "each device", rows.devices))
    for name, words, groups in questions:
        predicted, ideal = left_out(rows, groups, start)
        yield Line(
            name=f"plans-mpt-{name}",
            title=f"MPT training, sharded over 8 to 512 accelerators, {words} left out",
            measured=rows.step_time_s,
            predicted=predicted,
            groups=groups.tolist(),
            jobs=rows.sizes.tolist(),
            baselines={"flops_over_peak": ideal},
            target=TARGET,
            note="Equations on device facts alone; no step of one accelerator is given.",
        )


def _answered(data: Path, *, fast: bool) -> Iterator[Line]:
    """Ask for whole answers, where a job and a placement go in."""
    most = _FAST_ANSWERS if fast else _ANSWERS
    tables = {stack: published(data, FORMATS[stack]) for stack in Stack}
    known = {stack: plan_rows(records, stack) for stack, records in tables.items()}
    splits, shards = known[Stack.MEGATRON], known[Stack.TORCH]
    start = None if splits is None else shared_start(constants_of(splits))
    if shards is not None:
        records = tables[Stack.TORCH]
        for name, groups in (("size", shards.sizes), ("device", shards.devices)):
            title = f"The same as a whole answer, one accelerator included, each {name} left out"
            line = answered_line(
                f"plans-mpt-answered-{name}", f"MPT training: {title.lower()}", records, shards,
                groups, start=start, most=most,
            )  # fmt: skip
            if line is not None:
                yield line
    if splits is not None:
        line = answered_line(
            "plans-vtrain-answered-size",
            "GPT training under plans (vTrain): the same as a whole answer, each size left out",
            tables[Stack.MEGATRON], splits, splits.sizes, most=most,
        )  # fmt: skip
        if line is not None:
            yield line


def left_out(
    rows: PlanRows, groups: npt.NDArray[np.str_], start: PlanConstants | None
) -> tuple[FloatArray, FloatArray]:
    """Return answers to every group from the others, and FLOPs over peak at one efficiency.

    Parameters
    ----------
    groups : ndarray of str, shape (rows,)
        Left out one after the other.
    start : PlanConstants or None
        Where fits begin; from steps that are not among the rows.
    """
    predicted, ideal = np.zeros(len(rows)), np.zeros(len(rows))
    for group in np.unique(groups):
        held = groups == group
        learn, ask = rows.take(~held), rows.take(held)
        constants = constants_of(learn, start=start)
        predicted[held] = plan_step(ask.cells, constants, ask.between).step_time_s
        ratio = np.log(learn.step_time_s / learn.cells.least_time_s).mean()
        ideal[held] = np.exp(ratio) * ask.cells.least_time_s
    return predicted, ideal

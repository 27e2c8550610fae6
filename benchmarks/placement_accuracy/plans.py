"""Judge plans on published training of transformers: splits on one host, shards on many.

Of splits (Megatron on 1 to 8 accelerators) model sizes, and then widths, are left out; of sharded
steps (MPT of nine sizes on 8 to 512 accelerators) model sizes, and then devices. The equations
answer, as they answer for jobs, with constants fitted on the other groups; nothing is chosen on
what is left out. Beside them stand FLOPs over peak with one fitted efficiency and, for splits,
boosted trees on the plain columns (sizes, batch, degrees).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from placement_accuracy.line import Line
from placement_accuracy.plans_answered import answered_line

from perfmodel.errors import MissingExtraError
from perfmodel.features.arrays import FloatArray
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_step import plan_step
from perfmodel.training.placement_fits.fit_plans import (
    FORMATS,
    constants_of,
    published,
    shared_start,
)
from perfmodel.training.placement_rows.plan_rows import PlanRows, plan_rows

TARGET = 0.08
_PLAIN_TREES = 600
_PLAIN_SETTINGS = {
    "max_depth": 5,
    "learning_rate": 0.05,
    "subsample": 0.8,
    "nthread": 1,
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "seed": 0,
}
#: Steps that are asked as whole answers.
_ANSWERS, _FAST_ANSWERS = 24, 2


def evaluate(data: Path, *, fast: bool = False) -> list[Line]:
    """Return one line for each question about plans that the data can answer.

    Parameters
    ----------
    data : Path
        Folder of public measurements.
    fast : bool
        Fewer folds.
    """
    return [*_splits(data, fast=fast), *_shards(data), *_answered(data, fast=fast)]


def _splits(data: Path, *, fast: bool) -> Iterator[Line]:
    records = published(data, FORMATS[Stack.MEGATRON][0])
    rows = plan_rows(records, Stack.MEGATRON)
    if rows is None:
        return
    widths = np.array([size.partition("x")[2] for size in rows.sizes.tolist()])
    questions = (("size", "model size", rows.sizes), ("width", "width", widths))
    for name, words, groups in questions:
        folds = _dealt(groups) if fast else groups
        predicted, ideal = left_out(rows, folds, None)
        yield Line(
            name=f"plans-vtrain-{name}",
            title=f"GPT training under all plans on 1 to 8 A100 (vTrain), unseen {words}",
            measured=rows.step_time_s,
            predicted=predicted,
            groups=groups.tolist(),
            jobs=[
                f"{records[position].job_type}-{group}"
                for position, group in zip(rows.positions.tolist(), groups.tolist(), strict=True)
            ],
            baselines={"plain_trees": _plain_trees(rows, folds), "flops_over_peak": ideal},
            target=TARGET,
        )


def _dealt(groups: npt.NDArray[np.str_]) -> npt.NDArray[np.str_]:
    """Return the groups dealt into two folds."""
    names, group = np.unique(groups, return_inverse=True)
    # Not by turns: names in order are depths, each with all widths.
    order = np.random.default_rng(0).permutation(len(names))
    return np.array(["one", "other"])[order[group] % 2]


def _plain_trees(rows: PlanRows, groups: npt.NDArray[np.str_]) -> FloatArray:
    """Return answers to every group from trees on the plain columns of the others."""
    try:
        import xgboost
    except ImportError as error:
        raise MissingExtraError("Plain trees on plans", extra="train") from error
    plan, shape = rows.cells.plan, rows.cells.shape
    columns = np.stack(
        (
            plan.accelerators, plan.samples, plan.micro_batch, shape.hidden_size, shape.layers,
            plan.tensor, plan.data, plan.pipeline,
        ),
        axis=1,
    )  # fmt: skip
    predicted = np.zeros(len(rows))
    for group in np.unique(groups):
        held = groups == group
        data = xgboost.DMatrix(columns[~held], label=np.log(rows.step_time_s[~held]), nthread=1)
        booster = xgboost.train(_PLAIN_SETTINGS, data, num_boost_round=_PLAIN_TREES)
        predicted[held] = np.exp(booster.inplace_predict(columns[held]))
    return predicted


def _shards(data: Path) -> Iterator[Line]:
    rows = plan_rows(published(data, FORMATS[Stack.TORCH][0]), Stack.TORCH)
    if rows is None:
        return
    other = plan_rows(published(data, FORMATS[Stack.MEGATRON][0]), Stack.MEGATRON)
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
    tables = {stack: published(data, FORMATS[stack][0]) for stack in (Stack.MEGATRON, Stack.TORCH)}
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

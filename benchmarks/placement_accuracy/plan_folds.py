"""Judge predictions of parallel plans on published GPT training.

Folds leave whole groups out: ``"size"`` a model size (layers and width), ``"width"`` a width with
all its depths. Everything is fitted on the other groups; nothing is chosen on what is left out.

Beside the predictor stand its equations alone, boosted trees on the plain columns (sizes, batch,
degrees), and FLOPs over peak with one fitted efficiency.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from perfmodel.errors import MissingExtraError, TrainingError
from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.importers.published import PublishedPlacement
from perfmodel.placement.plans.plan_cells import PlanCells
from perfmodel.placement.plans.plan_constants import Stack
from perfmodel.placement.plans.plan_efficiency import PlanPredictor
from perfmodel.placement.plans.plan_step import plan_step
from perfmodel.training.placement_rows.plan_rows import plan_rows

Split = Literal["size", "width"]

#: The predictor, then what it is compared with.
METHODS = ("plan", "equations", "plain_trees", "flops_over_peak")

_PLAIN_TREES = 600
_PLAIN_SETTINGS = {
    "max_depth": 5,
    "learning_rate": 0.05,
    "subsample": 0.8,
    "nthread": 1,
    "objective": "reg:squarederror",
    "tree_method": "hist",
}


@dataclass(frozen=True, kw_only=True)
class PlanEvaluation:
    """Held-out answers of every method.

    Parameters
    ----------
    rows : tuple of int
        Position of each row among the placements given; others are no GPT of one node.
    measured_s : ndarray, shape (rows,)
    predicted_s : mapping of str to ndarray, shape (rows,)
        By the names of :data:`METHODS`.
    low_s, high_s : ndarray, shape (rows,)
        Ends of the predictor's intervals; NaN where it could not calibrate one.
    beyond : ndarray of bool, shape (rows,)
        Whether the plan lay beyond what the predictor had learned from.
    groups : tuple of str
        What each row was left out with: ``"24x1024"`` layers x width, or ``"1024"``.
    fold : ndarray of int64, shape (rows,)
    split : {"size", "width"}
    """

    rows: tuple[int, ...]
    measured_s: FloatArray
    predicted_s: Mapping[str, FloatArray]
    low_s: FloatArray
    high_s: FloatArray
    beyond: npt.NDArray[np.bool_]
    groups: tuple[str, ...]
    fold: IntArray
    split: Split

    @property
    def coverage(self) -> float | None:
        """Share of the measured times inside their interval; None where there is none."""
        given = np.isfinite(self.low_s)
        if not given.any():
            return None
        inside = (self.low_s <= self.measured_s) & (self.measured_s <= self.high_s)
        return float(inside[given].mean())

    def relative_errors(self, method: str) -> FloatArray:
        """Return :math:`|T^ / T - 1|` of each row."""
        return np.abs(self.predicted_s[method] / self.measured_s - 1)

    def mape(self, method: str) -> float:
        """Return the mean relative error in per cent."""
        return float(100 * self.relative_errors(method).mean())


def evaluate_plans(
    placements: Sequence[PublishedPlacement],
    *,
    seed: int = 0,
    folds: int | None = None,
    split: Split = "size",
    intervals: bool = True,
) -> PlanEvaluation:
    """Predict every step from the groups that do not hold it.

    Parameters
    ----------
    placements : sequence of PublishedPlacement
        Those that are no ``zoo/megatron-gpt`` on one node are passed over.
    folds : int or None
        How many parts the groups are dealt into, >= 2; None leaves out one group at a time.
    split : {"size", "width"}
        What a group is.
    intervals : bool
        Calibrate intervals, which takes most of the time.

    Raises
    ------
    TrainingError
        Fewer than two groups or folds.
    """
    kept = [row for row, one in enumerate(placements) if one.placement.host_count == 1]
    rows = plan_rows([placements[row] for row in kept], Stack.MEGATRON)
    if rows is None:
        raise TrainingError("No placement given is a GPT of Megatron on one host.")
    measured, cells = rows.step_time_s, rows.cells
    groups = tuple(_group(size, split) for size in rows.sizes.tolist())
    fold = _deal(groups, folds, seed)
    answers = {method: np.zeros(len(rows)) for method in METHODS}
    low, high = np.zeros(len(rows)), np.zeros(len(rows))
    beyond = np.zeros(len(rows), dtype=np.bool_)
    for part in np.unique(fold):
        held = np.flatnonzero(fold == part)
        rest = np.flatnonzero(fold != part)
        learn, ask = cells.take(rest), cells.take(held)
        predictor = PlanPredictor(seed=seed).fit(learn, measured[rest])
        answers["plan"][held] = predictor.predict(ask)
        # The same constants, without the trees.
        answers["equations"][held] = plan_step(ask, predictor.constants_).step_time_s
        if intervals:
            predictor.calibrate(learn, measured[rest])
        low[held], high[held] = predictor.interval(ask)
        beyond[held] = ~predictor.is_within(ask)
        for method, baseline in _BASELINES.items():
            answers[method][held] = baseline(learn, measured[rest], ask, seed)
    return PlanEvaluation(
        rows=tuple(kept[row] for row in rows.positions.tolist()),
        measured_s=measured,
        predicted_s=MappingProxyType(answers),
        low_s=low,
        high_s=high,
        beyond=beyond,
        groups=groups,
        fold=fold,
        split=split,
    )


def _group(size: str, split: Split) -> str:
    return size if split == "size" else size.partition("x")[2]


def _deal(groups: Sequence[str], folds: int | None, seed: int) -> IntArray:
    names = sorted(set(groups))
    np.random.default_rng(seed).shuffle(names)
    parts = len(names) if folds is None else folds
    if not 2 <= parts <= len(names):
        raise TrainingError(
            f"{len(names)} groups of plans cannot be dealt into {parts} folds; give placements of "
            "at least two model sizes, and between 2 and as many folds as sizes."
        )
    part = {name: position % parts for position, name in enumerate(names)}
    return np.array([part[name] for name in groups], dtype=np.int64)


def _plain_trees(learn: PlanCells, times: FloatArray, ask: PlanCells, seed: int) -> FloatArray:
    try:
        import xgboost
    except ImportError as error:
        raise MissingExtraError("Plain trees on plans", extra="train") from error
    data = xgboost.DMatrix(_plain_columns(learn), label=np.log(times), nthread=1)
    booster = xgboost.train({**_PLAIN_SETTINGS, "seed": seed}, data, num_boost_round=_PLAIN_TREES)
    return np.asarray(np.exp(booster.inplace_predict(_plain_columns(ask))), dtype=np.float64)


def _plain_columns(plans: PlanCells) -> FloatArray:
    plan, shape = plans.plan, plans.shape
    columns = (
        plan.accelerators, plan.samples, plan.micro_batch, shape.hidden_size, shape.layers,
        plan.tensor, plan.data, plan.pipeline,
    )  # fmt: skip
    return np.stack(columns, axis=1)


def _flops_over_peak(learn: PlanCells, times: FloatArray, ask: PlanCells, seed: int) -> FloatArray:
    """Answer with one efficiency: the geometric mean of those of the training part."""
    scale = np.exp(np.mean(np.log(times / learn.least_time_s)))
    return np.asarray(scale * ask.least_time_s, dtype=np.float64)


_BASELINES: Mapping[str, Callable[[PlanCells, FloatArray, PlanCells, int], FloatArray]] = (
    MappingProxyType(
        {
            "plain_trees": _plain_trees,
            "flops_over_peak": _flops_over_peak,
        }
    )
)

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

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidPlacementError, MissingExtraError, TrainingError
from perfmodel.importers.base import PublishedPlacement
from perfmodel.placement.plan_efficiency import PlanPredictor
from perfmodel.placement.transformer_plan import PlanTable, TransformerPlan

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Split = Literal["size", "width"]

#: The predictor, then what it is compared with.
METHODS = ("plan", "equations", "plain_trees", "flops_over_peak")

_MODEL = "zoo/megatron-gpt"
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
    seed : int
    folds : int or None
        How many parts the groups are dealt into, >= 2; None leaves out one group at a time.
    split : {"size", "width"}
        What a group is.
    intervals : bool
        Calibrate intervals, which takes most of the time.

    Returns
    -------
    PlanEvaluation

    Raises
    ------
    TrainingError
        Fewer than two groups or folds.
    """
    found = [(row, transformer_plan(record)) for row, record in enumerate(placements)]
    kept = [(row, plan) for row, plan in found if plan is not None]
    plans = [plan for _, plan in kept]
    measured = np.array([placements[row].step_time_s for row, _ in kept])
    groups = tuple(_group(plan, split) for plan in plans)
    fold = _deal(groups, folds, seed)
    answers = {method: np.zeros(len(plans)) for method in METHODS}
    low, high = np.zeros(len(plans)), np.zeros(len(plans))
    beyond = np.zeros(len(plans), dtype=np.bool_)
    for part in np.unique(fold):
        held = np.flatnonzero(fold == part)
        rest = np.flatnonzero(fold != part)
        learn, ask = (PlanTable.of([plans[i] for i in rows]) for rows in (rest, held))
        predictor = PlanPredictor(seed=seed).fit(learn, measured[rest])
        answers["plan"][held] = predictor.predict(ask)
        if intervals:
            predictor.calibrate(learn, measured[rest])
        low[held], high[held] = predictor.interval(ask)
        beyond[held] = ~predictor.is_within(ask)
        for method, baseline in _BASELINES.items():
            answers[method][held] = baseline(learn, measured[rest], ask, seed)
    return PlanEvaluation(
        rows=tuple(row for row, _ in kept),
        measured_s=measured,
        predicted_s=MappingProxyType(answers),
        low_s=low,
        high_s=high,
        beyond=beyond,
        groups=groups,
        fold=fold,
        split=split,
    )


def transformer_plan(
    record: PublishedPlacement, *, catalog: Catalog | None = None
) -> TransformerPlan | None:
    """Return the plan of a published step; None where it is no GPT on one node.

    Parameters
    ----------
    record : PublishedPlacement
    catalog : Catalog or None
        The shipped one where None.
    """
    job, placement = record.job, record.placement
    if job is None or job.model != _MODEL or placement.host_count > 1 or placement.shared_with:
        return None
    sizes = job.model_kwargs
    try:
        return TransformerPlan.of(
            (catalog or Catalog.default()).get(placement.nodes[0].accelerator),
            placement.plan,
            layers=sizes["num_layers"],
            hidden_size=sizes["hidden_size"],
            heads=sizes["num_heads"],
            sequence_length=job.sequence_length or sizes.get("max_positions", 1024),
            micro_batch=job.batch_size,
            micro_batches=job.accumulation_steps,
            precision=job.precision,
            recomputes=job.activation_checkpointing,
        )
    except (KeyError, InvalidPlacementError):
        return None


def _group(plan: TransformerPlan, split: Split) -> str:
    return f"{plan.layers}x{plan.hidden_size}" if split == "size" else str(plan.hidden_size)


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


def _equations(learn: PlanTable, times: FloatArray, ask: PlanTable, seed: int) -> FloatArray:
    return PlanPredictor(boosted=False, seed=seed).fit(learn, times).predict(ask)


def _plain_trees(learn: PlanTable, times: FloatArray, ask: PlanTable, seed: int) -> FloatArray:
    try:
        import xgboost
    except ImportError as error:
        raise MissingExtraError("Plain trees on plans", extra="train") from error
    data = xgboost.DMatrix(_plain_columns(learn), label=np.log(times), nthread=1)
    booster = xgboost.train({**_PLAIN_SETTINGS, "seed": seed}, data, num_boost_round=_PLAIN_TREES)
    return np.asarray(np.exp(booster.inplace_predict(_plain_columns(ask))), dtype=np.float64)


def _plain_columns(plans: PlanTable) -> FloatArray:
    batch = plans.micro_batch * plans.micro_batches * plans.data
    columns = (
        plans.accelerators, batch, plans.micro_batch, plans.hidden_size, plans.layers,
        plans.tensor, plans.data, plans.pipeline,
    )  # fmt: skip
    return np.stack(columns, axis=1)


def _flops_over_peak(learn: PlanTable, times: FloatArray, ask: PlanTable, seed: int) -> FloatArray:
    """Answer with one efficiency: the geometric mean of those of the training part."""
    scale = np.exp(np.mean(np.log(times / _ideal_s(learn))))
    return np.asarray(scale * _ideal_s(ask), dtype=np.float64)


def _ideal_s(plans: PlanTable) -> FloatArray:
    return plans.model_flops / (plans.accelerators * plans.peak_flops)


_BASELINES: Mapping[str, Callable[[PlanTable, FloatArray, PlanTable, int], FloatArray]] = (
    MappingProxyType(
        {
            "equations": _equations,
            "plain_trees": _plain_trees,
            "flops_over_peak": _flops_over_peak,
        }
    )
)

r"""Learn the open constants of the plan equations, and what is left, from measured steps.

First the constants of :mod:`perfmodel.placement.transformer_plan`, by least squares in log space:
:math:`\min \sum_i (\ln \hat T_i - \ln T_i)^2 + w^2 \|x - x_0\|^2`, where x holds the logits of
efficiencies and the logs of the others, so that efficiencies stay below one and times above zero,
and the second term keeps constants that the data do not fix near where they began.

Then, where asked for, boosted trees on :math:`\ln T - \ln \hat T`: what depends on degrees and
batch in ways that no equation holds (how busy the host is with a split, which kernel is chosen).
The trees see degrees, micro-batches, the balance of device and host, and the shares of the parts;
of the sizes of the model they see the width alone, so that layers stay with the equations. Where
a plan lies beyond the widths, micro-batches or degrees that were learned from, the equations
answer alone: on a width never seen the trees did not help (9.6 % error against 8.6 %).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import MissingExtraError, TrainingError
from perfmodel.placement.least_squares import least_squares
from perfmodel.placement.transformer_plan import PlanConstants, PlanTable, PlanTimes, plan_times

if TYPE_CHECKING:
    import xgboost

FloatArray = npt.NDArray[np.float64]

#: Beyond the range of these the trees are not asked.
_RANGED = ("hidden_size", "micro_batch", "tensor", "pipeline", "data")
_NAMES = tuple(one.name for one in fields(PlanConstants))
_IS_SHARE = np.array([name.endswith("_efficiency") for name in _NAMES])
#: Weight of a constant's distance (a factor of e, or a logit) from where it began, in log errors.
_PRIOR_WEIGHT = 0.3
#: Fewer steps do not fix even the main constants.
_LEAST_STEPS = 2 * len(_NAMES)

_TREES = 150
_TREE_SETTINGS: Mapping[str, Any] = {
    "max_depth": 4,
    "learning_rate": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.8,
    "min_child_weight": 5,
    "nthread": 1,
    "objective": "reg:squarederror",
    "tree_method": "hist",
}


def fit_constants(
    plans: PlanTable, step_time_s: FloatArray, *, start: PlanConstants | None = None
) -> PlanConstants:
    """Return the constants under which the equations meet measured steps best.

    Parameters
    ----------
    plans : PlanTable
    step_time_s : ndarray, shape (plans,)
        Measured, > 0.
    start : PlanConstants or None
        Where to begin and what to stay near.

    Returns
    -------
    PlanConstants
    """
    first = _unknowns(start or PlanConstants())
    measured = np.log(step_time_s)

    def residuals(x: FloatArray) -> FloatArray:
        errors = np.log(plan_times(plans, _constants(x)).step_time_s) - measured
        return np.concatenate((errors, _PRIOR_WEIGHT * (x - first)))

    return _constants(least_squares(residuals, first))


def _unknowns(constants: PlanConstants) -> FloatArray:
    values = np.array([getattr(constants, name) for name in _NAMES])
    odds = values / np.where(_IS_SHARE, 1 - values, 1.0)
    return np.asarray(np.log(odds), dtype=np.float64)


def _constants(x: FloatArray) -> PlanConstants:
    # Far beyond any sensible value; keeps a wild step of the search finite.
    powers = np.exp(np.clip(x, -60.0, 60.0))
    values = np.where(_IS_SHARE, powers / (1 + powers), powers)
    return PlanConstants(**dict(zip(_NAMES, values.tolist(), strict=True)))


class PlanPredictor:
    """Step times of GPT training under parallel plans.

    Parameters
    ----------
    boosted : bool
        Learn what the equations leave over.
    seed : int

    Attributes
    ----------
    constants_ : PlanConstants
        Set by :meth:`fit`.
    booster_ : xgboost.Booster or None
        None where ``boosted`` is False.
    ranges_ : mapping of str to (float, float)
        Least and most that was learned from, of what bounds the use of the trees.
    """

    def __init__(self, *, boosted: bool = True, seed: int = 0) -> None:
        self.boosted = boosted
        self.seed = seed

    def fit(self, plans: PlanTable, step_time_s: FloatArray) -> Self:
        """Learn from measured steps.

        Parameters
        ----------
        plans : PlanTable
        step_time_s : ndarray, shape (plans,)
            Measured, > 0.

        Raises
        ------
        TrainingError
            Too few steps, or times that are not above zero.
        MissingExtraError
            Trees are asked for and xgboost is not installed.
        """
        times = np.asarray(step_time_s, dtype=np.float64)
        if len(plans) < _LEAST_STEPS or len(times) != len(plans):
            raise TrainingError(
                f"{len(_NAMES)} constants need at least {_LEAST_STEPS} measured steps; got "
                f"{len(times)} times of {len(plans)} plans."
            )
        if not (np.isfinite(times).all() and (times > 0).all()):
            raise TrainingError("Measured step times must be finite and above zero.")
        self.constants_ = fit_constants(plans, times)
        self.booster_ = self._grow(plans, times) if self.boosted else None
        self.ranges_ = {
            name: (float(getattr(plans, name).min()), float(getattr(plans, name).max()))
            for name in _RANGED
        }
        return self

    def predict(self, plans: PlanTable) -> FloatArray:
        """Return step times in seconds, shape (plans,)."""
        parts = plan_times(plans, self.constants_)
        if self.booster_ is None:
            return parts.step_time_s
        left = self.booster_.inplace_predict(leftover_columns(plans, parts))
        factor = np.where(self.is_within(plans), np.exp(left), 1.0)
        return np.asarray(parts.step_time_s * factor, dtype=np.float64)

    def is_within(self, plans: PlanTable) -> npt.NDArray[np.bool_]:
        """Tell which plans lie inside of what was learned from, shape (plans,)."""
        within = np.ones(len(plans), dtype=np.bool_)
        for name, (least, most) in self.ranges_.items():
            values = getattr(plans, name)
            within &= (least <= values) & (values <= most)
        return within

    def _grow(self, plans: PlanTable, times: FloatArray) -> xgboost.Booster:
        try:
            import xgboost
        except ImportError as error:
            raise MissingExtraError("Learning plan efficiencies", extra="train") from error
        parts = plan_times(plans, self.constants_)
        data = xgboost.DMatrix(
            leftover_columns(plans, parts), label=np.log(times / parts.step_time_s), nthread=1
        )
        settings = {**_TREE_SETTINGS, "seed": self.seed, "base_score": 0.0}
        return xgboost.train(settings, data, num_boost_round=_TREES)

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned as JSON values."""
        trees = None
        if self.booster_ is not None:
            trees = json.loads(self.booster_.save_raw("json").decode())
        return {
            "constants": asdict(self.constants_),
            "ranges": {name: list(pair) for name, pair in self.ranges_.items()},
            "trees": trees,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PlanPredictor:
        """Read back what :meth:`to_dict` gave."""
        found = cls(boosted=values["trees"] is not None, seed=int(values["seed"]))
        found.constants_ = PlanConstants(**values["constants"])
        found.ranges_ = {name: (low, high) for name, (low, high) in values["ranges"].items()}
        found.booster_ = None
        if values["trees"] is not None:
            import xgboost

            found.booster_ = xgboost.Booster({"nthread": 1})
            found.booster_.load_model(bytearray(json.dumps(values["trees"]).encode()))
        return found


def leftover_columns(plans: PlanTable, parts: PlanTimes) -> npt.NDArray[np.float32]:
    """Return what the trees see of some plans, shape (plans, columns)."""
    total = parts.step_time_s
    columns = (
        np.log2(plans.micro_batch),
        np.log2(plans.micro_batches),
        np.log2(plans.tensor),
        np.log2(plans.pipeline),
        np.log2(plans.data),
        np.log2(plans.hidden_size),
        np.log(parts.layer_compute_s / parts.layer_launch_s),
        parts.layers_s / total,
        parts.head_s / total,
    )
    return np.stack(columns, axis=1).astype(np.float32)

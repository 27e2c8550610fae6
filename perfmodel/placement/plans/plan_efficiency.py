r"""Learn the open constants of the plan equations, and what is left, from measured steps.

First the constants of :mod:`.plan_step`, as :mod:`.plan_fit`
finds them. Then, where asked for, boosted trees on :math:`\ln T - \ln \hat T`: what depends on
degrees and batch in ways that no equation holds (how busy the host is with a split, which kernel
is chosen). The trees see degrees, micro-batches, the balance of device and host, and the shares of
the parts; of the sizes of the model they see the width alone, so that layers stay with the
equations. Where a plan lies beyond the widths, micro-batches or degrees that were learned from,
the equations answer alone: on a width never seen the trees did not help.

Intervals are those of split conformal prediction on log times: every model size (layers and
width) is left out in turn, and the half-width is the quantile of the errors there. Beyond what
was learned from they are calibrated on widths left out in turn, by the equations alone; where one
width is all there is, such an interval cannot be calibrated and is not given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from perfmodel.errors import MissingExtraError, TrainingError
from perfmodel.placement.plans.layer_time import device_times, launch_times_s
from perfmodel.placement.plans.plan_cells import PlanCells
from perfmodel.placement.plans.plan_constants import PlanConstants, Stack
from perfmodel.placement.plans.plan_exchanges import Exchanges, exchanges
from perfmodel.placement.plans.plan_fit import OPEN, STARTS, fit_constants
from perfmodel.placement.plans.plan_step import PlanStep, plan_step

if TYPE_CHECKING:
    import xgboost

FloatArray = npt.NDArray[np.float64]

#: Beyond the range of these the trees are not asked.
_RANGED = ("micro_batch", "tensor", "pipeline", "data")
#: The fits behind intervals are many.
_STARTS_INSIDE = 1
#: Fewer steps do not fix even the main constants.
_LEAST_STEPS = 2 * len(OPEN[Stack.MEGATRON])

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


class PlanPredictor:
    """Step times of transformer training under parallel plans, on one stack of software.

    Parameters
    ----------
    boosted : bool
        Learn what the equations leave over.
    stack : Stack
        That the steps run on.
    coverage : float
        Share of measured times that an interval shall contain, in (0, 1).

    Attributes
    ----------
    constants_ : PlanConstants
        Set by :meth:`fit`.
    booster_ : xgboost.Booster or None
        None where ``boosted`` is False.
    half_width_, half_width_beyond_ : float or None
        Of the intervals, in log time; set by :meth:`calibrate`, None where it cannot be.
    ranges_ : mapping of str to (float, float)
        Least and most that was learned from, of what bounds the use of the trees.
    """

    def __init__(
        self,
        *,
        boosted: bool = True,
        stack: Stack = Stack.MEGATRON,
        coverage: float = 0.9,
        seed: int = 0,
    ) -> None:
        self.boosted = boosted
        self.stack = stack
        self.coverage = coverage
        self.seed = seed

    def fit(self, plans: PlanCells, step_time_s: FloatArray) -> Self:
        """Learn from measured steps.

        Parameters
        ----------
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
                f"The constants of plans need at least {_LEAST_STEPS} measured steps; got "
                f"{len(times)} times of {len(plans)} plans."
            )
        if not (np.isfinite(times).all() and (times > 0).all()):
            raise TrainingError("Measured step times must be finite and above zero.")
        return self._fit(plans, times, STARTS)

    def _fit(self, plans: PlanCells, times: FloatArray, starts: int) -> Self:
        self.constants_ = fit_constants(plans, times, self.stack, starts=starts)
        self.booster_ = self._grow(plans, times) if self.boosted else None
        self.ranges_ = {
            name: (float(values.min()), float(values.max()))
            for name, values in _ranged(plans).items()
        }
        self.half_width_: float | None = None
        self.half_width_beyond_: float | None = None
        return self

    def calibrate(self, plans: PlanCells, step_time_s: FloatArray) -> Self:
        """Learn how wide intervals must be, from the steps that :meth:`fit` was given.

        Parameters
        ----------
        step_time_s : ndarray, shape (plans,)
        """
        times = np.asarray(step_time_s, dtype=np.float64)
        widths = plans.shape.hidden_size
        sizes = plans.shape.layers * 1e9 + widths
        self.half_width_ = self._half_width(plans, times, sizes, boosted=self.boosted)
        self.half_width_beyond_ = self._half_width(plans, times, widths, boosted=False)
        return self

    def _half_width(
        self, plans: PlanCells, times: FloatArray, groups: FloatArray, *, boosted: bool
    ) -> float | None:
        if len(np.unique(groups)) < 2:
            return None
        errors = np.zeros(len(plans))
        for group in np.unique(groups):
            held = groups == group
            if np.count_nonzero(~held) < _LEAST_STEPS:
                return None
            inner = PlanPredictor(boosted=boosted, stack=self.stack, seed=self.seed)
            inner._fit(plans.take(~held), times[~held], _STARTS_INSIDE)
            errors[held] = np.abs(np.log(inner.predict(plans.take(held)) / times[held]))
        rank = min(1.0, self.coverage * (1 + 1 / len(errors)))
        return float(np.quantile(errors, rank, method="higher"))

    def predict(self, plans: PlanCells) -> FloatArray:
        """Return step times in seconds, shape (plans,)."""
        between = exchanges(plans)
        steps = plan_step(plans, self.constants_, between)
        if self.booster_ is None:
            return steps.step_time_s
        left = self.booster_.inplace_predict(
            leftover_columns(plans, between, steps, self.constants_)
        )
        factor = np.where(self.is_within(plans), np.exp(left), 1.0)
        # Corrections are learned; the peak of the devices is not.
        return np.maximum(steps.step_time_s * factor, steps.least_time_s)

    def interval(self, plans: PlanCells) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the interval of each plan in seconds; NaN where it has none."""
        widths = np.array([self.half_width_beyond_, self.half_width_], dtype=np.float64)
        answers, width = self.predict(plans), widths[self.is_within(plans).astype(np.int64)]
        return answers * np.exp(-width), answers * np.exp(width)

    def is_within(self, plans: PlanCells) -> npt.NDArray[np.bool_]:
        """Tell which plans lie inside of what was learned from, shape (plans,)."""
        within = np.ones(len(plans), dtype=np.bool_)
        values = _ranged(plans)
        for name, (least, most) in self.ranges_.items():
            within &= (least <= values[name]) & (values[name] <= most)
        return within

    def _grow(self, plans: PlanCells, times: FloatArray) -> xgboost.Booster:
        try:
            import xgboost
        except ImportError as error:
            raise MissingExtraError("Learning plan efficiencies", extra="train") from error
        between = exchanges(plans)
        steps = plan_step(plans, self.constants_, between)
        columns = leftover_columns(plans, between, steps, self.constants_)
        data = xgboost.DMatrix(columns, label=np.log(times / steps.step_time_s), nthread=1)
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
            "half_widths": [self.half_width_, self.half_width_beyond_],
            "coverage": self.coverage,
            "trees": trees,
            "stack": self.stack.value,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PlanPredictor:
        """Read back what :meth:`to_dict` gave."""
        found = cls(
            boosted=values["trees"] is not None,
            stack=Stack(values["stack"]),
            coverage=float(values["coverage"]),
            seed=int(values["seed"]),
        )
        found.half_width_, found.half_width_beyond_ = values["half_widths"]
        found.constants_ = PlanConstants.from_dict(values["constants"])
        found.ranges_ = {name: (low, high) for name, (low, high) in values["ranges"].items()}
        found.booster_ = None
        if values["trees"] is not None:
            import xgboost

            found.booster_ = xgboost.Booster({"nthread": 1})
            found.booster_.load_model(bytearray(json.dumps(values["trees"]).encode()))
        return found


def leftover_columns(
    plans: PlanCells, between: Exchanges, steps: PlanStep, constants: PlanConstants
) -> npt.NDArray[np.float32]:
    """Return what the trees see of some plans, shape (plans, columns)."""
    total, plan = steps.step_time_s, plans.plan
    device = device_times(plans, between, constants)
    launched = np.add(*launch_times_s(plans, constants))
    columns = (
        np.log2(plan.micro_batch),
        np.log2(plan.micro_batches),
        np.log2(plan.tensor),
        np.log2(plan.pipeline),
        np.log2(plan.data),
        np.log2(plans.shape.hidden_size),
        np.log((device.forward_s + device.backward_s) / launched),
        steps.parts.exposed_communication_s / total,
        steps.bubble_s / total,
    )
    return np.stack(columns, axis=1).astype(np.float32)


def _ranged(plans: PlanCells) -> dict[str, FloatArray]:
    columns = {name: getattr(plans.plan, name) for name in _RANGED}
    return {"hidden_size": plans.shape.hidden_size, **columns}

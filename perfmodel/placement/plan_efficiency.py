r"""Learn the open constants of the plan equations, and what is left, from measured steps.

First the constants of :mod:`perfmodel.placement.transformer_plan`, in log space:
:math:`\min \sum_i \rho(\ln \hat T_i - \ln T_i) + w^2 \|x - x_0\|^2`, where x holds the logits of
efficiencies and the logs of the others, so that efficiencies stay below one and times above zero,
and the second term keeps constants that the data do not fix near where they began. The loss
:math:`\rho(r) = 2 c^2 (\sqrt{1 + (r/c)^2} - 1)` is the square of small errors and the size of large
ones: a split that the host slows down for reasons of its own shall not bend the constants.

Then, where asked for, boosted trees on :math:`\ln T - \ln \hat T`: what depends on degrees and
batch in ways that no equation holds (how busy the host is with a split, which kernel is chosen).
The trees see degrees, micro-batches, the balance of device and host, and the shares of the parts;
of the sizes of the model they see the width alone, so that layers stay with the equations. Where
a plan lies beyond the widths, micro-batches or degrees that were learned from, the equations
answer alone: on a width never seen the trees did not help.

Intervals are those of split conformal prediction on log times: every model size (layers and
width) is left out in turn, and the half-width is the quantile of the errors there. Beyond what
was learned from they are calibrated on widths left out in turn, by the equations alone; where one
width is all there is, such an interval cannot be calibrated and is not given.
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
_PRIOR_WEIGHT = 0.1
#: Log error from which on the loss is no longer square [c].
_SMALL_ERROR = 0.02
#: The larger of two times has kinks, and so the sum of squares has several valleys: the search
#: begins at the start and at points around it, and the lowest valley wins.
_STARTS = 8
_SPREAD = 0.5
#: The same for the fits behind intervals, which are many.
_STARTS_INSIDE = 2
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
    plans: PlanTable,
    step_time_s: FloatArray,
    *,
    start: PlanConstants | None = None,
    starts: int = _STARTS,
) -> PlanConstants:
    """Return the constants under which the equations meet measured steps best.

    Parameters
    ----------
    plans : PlanTable
    step_time_s : ndarray, shape (plans,)
        Measured, > 0.
    start : PlanConstants or None
        Where to begin and what to stay near.
    starts : int
        Points that the search begins at, >= 1.

    Returns
    -------
    PlanConstants
    """
    first = _unknowns(start or PlanConstants())
    measured = np.log(step_time_s)

    def residuals(x: FloatArray) -> FloatArray:
        errors = np.log(plan_times(plans, _constants(x)).step_time_s) - measured
        return np.concatenate((_dampened(errors), _PRIOR_WEIGHT * (x - first)))

    around = np.random.default_rng(0).standard_normal((starts, len(first)))
    around[0] = 0.0
    found = [least_squares(residuals, first + _SPREAD * offset) for offset in around]
    return _constants(min(found, key=lambda x: float(np.square(residuals(x)).sum())))


def _dampened(errors: FloatArray) -> FloatArray:
    """Return the signed roots of the loss, whose squares are summed."""
    loss = 2 * _SMALL_ERROR**2 * (np.sqrt(1 + (errors / _SMALL_ERROR) ** 2) - 1)
    return np.asarray(np.sign(errors) * np.sqrt(loss), dtype=np.float64)


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
    coverage : float
        Share of measured times that an interval shall contain, in (0, 1).
    seed : int

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

    def __init__(self, *, boosted: bool = True, coverage: float = 0.9, seed: int = 0) -> None:
        self.boosted = boosted
        self.coverage = coverage
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
        return self._fit(plans, times, _STARTS)

    def _fit(self, plans: PlanTable, times: FloatArray, starts: int) -> Self:
        self.constants_ = fit_constants(plans, times, starts=starts)
        self.booster_ = self._grow(plans, times) if self.boosted else None
        self.ranges_ = {
            name: (float(getattr(plans, name).min()), float(getattr(plans, name).max()))
            for name in _RANGED
        }
        self.half_width_: float | None = None
        self.half_width_beyond_: float | None = None
        return self

    def calibrate(self, plans: PlanTable, step_time_s: FloatArray) -> Self:
        """Learn how wide intervals must be, from the steps that :meth:`fit` was given.

        Parameters
        ----------
        plans : PlanTable
        step_time_s : ndarray, shape (plans,)
        """
        times = np.asarray(step_time_s, dtype=np.float64)
        sizes = plans.layers * 1e9 + plans.hidden_size
        self.half_width_ = self._half_width(plans, times, sizes, boosted=self.boosted)
        self.half_width_beyond_ = self._half_width(plans, times, plans.hidden_size, boosted=False)
        return self

    def _half_width(
        self, plans: PlanTable, times: FloatArray, groups: FloatArray, *, boosted: bool
    ) -> float | None:
        if len(np.unique(groups)) < 2:
            return None
        errors = np.zeros(len(plans))
        for group in np.unique(groups):
            held = groups == group
            if np.count_nonzero(~held) < _LEAST_STEPS:
                return None
            inner = PlanPredictor(boosted=boosted, seed=self.seed)
            inner._fit(plans.take(~held), times[~held], _STARTS_INSIDE)
            errors[held] = np.abs(np.log(inner.predict(plans.take(held)) / times[held]))
        rank = min(1.0, self.coverage * (1 + 1 / len(errors)))
        return float(np.quantile(errors, rank, method="higher"))

    def predict(self, plans: PlanTable) -> FloatArray:
        """Return step times in seconds, shape (plans,)."""
        parts = plan_times(plans, self.constants_)
        if self.booster_ is None:
            return parts.step_time_s
        left = self.booster_.inplace_predict(leftover_columns(plans, parts))
        factor = np.where(self.is_within(plans), np.exp(left), 1.0)
        return np.asarray(parts.step_time_s * factor, dtype=np.float64)

    def interval(self, plans: PlanTable) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the interval of each plan in seconds; NaN where it has none."""
        widths = np.array([self.half_width_beyond_, self.half_width_], dtype=np.float64)
        answers, width = self.predict(plans), widths[self.is_within(plans).astype(np.int64)]
        return answers * np.exp(-width), answers * np.exp(width)

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
            "half_widths": [self.half_width_, self.half_width_beyond_],
            "coverage": self.coverage,
            "trees": trees,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PlanPredictor:
        """Read back what :meth:`to_dict` gave."""
        found = cls(
            boosted=values["trees"] is not None,
            coverage=float(values["coverage"]),
            seed=int(values["seed"]),
        )
        found.half_width_, found.half_width_beyond_ = values["half_widths"]
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

"""How far kernels lie from what a predictor says that has not learned from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.intervals import COVERAGE
from perfmodel.predictors.boosting import BoosterSettings
from perfmodel.predictors.kernels.kernel_base import kernel_group
from perfmodel.predictors.kernels.kernel_predictor import KernelPredictor
from perfmodel.predictors.kernels.kernel_times import KernelSpread
from perfmodel.training.samples.measured_kernels import MeasuredCalls, same_shapes, shape_hash

#: Calls of one operator on one device, and trees: enough to judge by.
CALLS_PER_OPERATOR = 600
ROUNDS = 120
_PARTS = 3

#: Which calls are held out together.
Folds = Callable[[MeasuredCalls], IntArray]


def measured_spread(
    measured: MeasuredCalls, settings: BoosterSettings, seed: int = 0
) -> KernelSpread:
    """Return the half widths of intervals, per group of operators.

    Each device is left out in turn, and then each third of all shapes.

    Parameters
    ----------
    settings : BoosterSettings
        Those of the predictor; fewer trees are grown.
    """
    chosen = measured.take(same_shapes(measured.calls, CALLS_PER_OPERATOR, seed))
    quick = replace(settings, rounds=min(settings.rounds, ROUNDS))
    return KernelSpread(
        known=_half_widths(chosen, quick, seed, _by_shape),
        unseen=_half_widths(chosen, quick, seed, lambda part: part.calls.device),
    )


def _by_shape(part: MeasuredCalls) -> IntArray:
    return (shape_hash(part.calls, 1) % np.uint64(_PARTS)).astype(np.int64)


def _half_widths(
    measured: MeasuredCalls, settings: BoosterSettings, seed: int, folds: Folds
) -> dict[str, float]:
    group, found = kernel_group(measured.calls), {}
    for name in np.unique(group).tolist():
        part = measured.take(group == name)
        fold = folds(part)
        if len(np.unique(fold)) > 1:
            residual = np.abs(held_out_residuals(part, fold, settings, seed))
            found[str(name)] = float(np.quantile(residual, COVERAGE))
    return found


def held_out_residuals(
    part: MeasuredCalls, fold: IntArray, settings: BoosterSettings, seed: int
) -> FloatArray:
    """Return ln(measured / predicted) of each call by a predictor that has not seen its fold."""
    residual = np.zeros(len(part))
    for held in np.unique(fold).tolist():
        rows = fold == held
        train, test = part.take(~rows), part.take(rows)
        predictor = KernelPredictor(settings, seed).fit(train.calls, train.time_s)
        residual[rows] = np.log(test.time_s / predictor.predict(test.calls))
    return residual

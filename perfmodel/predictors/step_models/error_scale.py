"""How far off a predicted step usually is: boosted trees on the columns of whole steps.

Some steps are hard to predict whatever is asked about them: old releases, tiny batches, work that
its host is late for. How hard shows in how far members were off that had not seen the family::

    factor = q(|ln(measured / predicted)| / usual | columns) / z

with ``q`` the quantile that intervals promise, learned by trees, ``usual`` what is left in the
regime of a step, and ``z`` the same quantile of a normal residual, so that a regime whose steps are
all alike has the factor 1. Quantiles of intervals are measured over the factor afterwards, so that
coverage does not rest on these trees; widths do.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.whole_step import WHOLE_COLUMNS
from perfmodel.intervals import DEVIATIONS
from perfmodel.predictors.boosting import Booster, BoosterSettings

#: Few shallow trees with large leaves: a quantile of nine tenths takes many steps to tell.
_SETTINGS = BoosterSettings(
    rounds=60,
    depth=3,
    learning_rate=0.08,
    min_child_weight=20.0,
    row_share=0.7,
    column_share=0.5,
    l2=5.0,
    bins=128,
    quantile=0.9,
)
#: Residuals below this share of the usual one are as good as none.
_LEAST = 0.05
_LIMITS = (0.2, 5.0)


class ErrorScale:
    """Learns how much wider the interval of a step is than that of its regime.

    Parameters
    ----------
    booster : Booster or None
        What was learned before; None where it is still to be fitted.
    """

    def __init__(self, booster: Booster | None = None) -> None:
        if booster is not None:
            self.booster_ = booster

    def fit(
        self, rows: npt.NDArray[np.float32], residuals: FloatArray, weights: FloatArray
    ) -> Self:
        """Learn from residuals on families that were held out.

        Parameters
        ----------
        rows : ndarray of float32, shape (steps, len(WHOLE_COLUMNS))
        residuals : ndarray, shape (steps,)
            log(measured / predicted) over what is usually left in the regime of each.
        weights : ndarray, shape (steps,)
        """
        target = np.log(np.maximum(np.abs(residuals), _LEAST) / DEVIATIONS)
        self.booster_ = Booster.train(rows, target, weights, WHOLE_COLUMNS, _SETTINGS)
        return self

    def factors(self, rows: npt.NDArray[np.float32]) -> FloatArray:
        """Return how much wider an answer is than is usual, shape (steps,)."""
        return np.asarray(np.exp(self.booster_.predict(rows)).clip(*_LIMITS))


def held_out_factors(
    rows: npt.NDArray[np.float32], residuals: FloatArray, weights: FloatArray, fold: IntArray
) -> FloatArray:
    """Return the factor of each step by trees that have not seen its fold, shape (steps,)."""
    factors = np.ones(len(rows))
    for k in np.unique(fold):
        own, others = fold == k, fold != k
        scale = ErrorScale().fit(rows[others], residuals[others], weights[others])
        factors[own] = scale.factors(rows[own])
    return factors

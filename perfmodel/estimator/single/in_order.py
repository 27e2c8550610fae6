r"""Predictions for cards and modules of one chip, brought into the order of what these can do.

A card is never faster than another one of its chip whose power limit, cores, clock, peaks and
bandwidth are no smaller, one of them larger. Predictions that say so are pooled: with the
deviations :math:`s_i` of the logarithms of those on the best rung among them all become

.. math:: \ln t = \sum_i s_i^{-2} \ln t_i \Big/ \sum_i s_i^{-2},

so that what was measured does not move for what was not, and of equal evidence the surer moves
less. Where they differ because of the hosts that they were measured in, the mean is what is known
of either.

Reference: pooling adjacent violators, Barlow et al., Statistical Inference under Order
Restrictions, 1972.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from perfmodel.devices.sisters import is_weaker
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import RUNG

#: No prediction counts as surer than this.
_LEAST_DEVIATION = 0.02


def in_order(
    accelerators: Sequence[AcceleratorSpec], predictions: Sequence[Prediction]
) -> list[Prediction]:
    """Return predictions of one step on sisters, none of a weaker one faster than of a stronger."""
    pools = [[place] for place in range(len(accelerators))]
    logs = [math.log(one.time_s) for one in predictions]
    while (pair := _violation(accelerators, pools, logs)) is not None:
        weak, strong = pair
        merged = sorted(pools[weak] + pools[strong])
        mean = _pooled(predictions, merged)
        pools = [pool for at, pool in enumerate(pools) if at not in pair] + [merged]
        for place in merged:
            logs[place] = mean
    return [_moved(one, log) for one, log in zip(predictions, logs, strict=True)]


def _violation(
    accelerators: Sequence[AcceleratorSpec], pools: list[list[int]], logs: list[float]
) -> tuple[int, int] | None:
    """Return the pools of a weaker accelerator that is faster than a stronger one; None in order.

    The worst violation comes first, so that the order of the accelerators does not matter.
    """
    found = [
        (logs[strong[0]] - logs[weak[0]], at, to)
        for at, weak in enumerate(pools)
        for to, strong in enumerate(pools)
        if logs[weak[0]] < logs[strong[0]]
        and any(is_weaker(accelerators[w], accelerators[s]) for w in weak for s in strong)
    ]
    return max(found)[1:] if found else None


def _pooled(predictions: Sequence[Prediction], places: list[int]) -> float:
    best = min(RUNG[predictions[place].basis] for place in places)
    heard = [predictions[place] for place in places if RUNG[predictions[place].basis] == best]
    weights = [max(math.log(one.high_s / one.low_s) / 2, _LEAST_DEVIATION) ** -2 for one in heard]
    logs = [math.log(one.time_s) for one in heard]
    return math.fsum(w * one for w, one in zip(weights, logs, strict=True)) / math.fsum(weights)


def _moved(prediction: Prediction, log: float) -> Prediction:
    """Return a prediction at another time; its interval moves along and holds where it was."""
    time_s = math.exp(log)
    factor = time_s / prediction.time_s
    if abs(factor - 1.0) < 1e-12:
        return prediction
    return replace(
        prediction,
        time_s=time_s,
        low_s=min(prediction.low_s * factor, prediction.time_s),
        high_s=max(prediction.high_s * factor, prediction.time_s),
    )

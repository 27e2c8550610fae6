r"""Find the open constants of the plan equations from measured steps.

In log space: :math:`\min \sum_i \rho(\ln \hat T_i - \ln T_i) + w^2 \|x - x_0\|^2`, where x holds
the logits of efficiencies and overlaps and the logs of the others, so that shares stay below one
and times above zero, and the second term keeps constants that the data do not fix near where they
began. The loss :math:`\rho(r) = 2 c^2 (\sqrt{1 + (r/c)^2} - 1)` is the square of small errors and
the size of large ones: a step that something slows down for reasons of its own shall not bend the
constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.placement.least_squares import dampened, least_squares
from perfmodel.placement.plan_steps.plan_cells import PlanCells
from perfmodel.placement.plan_steps.plan_constants import PlanConstants, Stack
from perfmodel.placement.plan_steps.plan_exchanges import Exchanges, exchanges
from perfmodel.placement.plan_steps.plan_step import plan_step

#: What measured steps of each stack can tell. Megatron's are of one host, with scores in memory
#: and gradients reduced at the end; the others are sharded over hosts, split no product, and have
#: micro-batches so large that latencies do not show. Those of Megatron's core are of all kinds of
#: splits in 16 and 8 bits, dense and with experts. Of compiled steps there are few dozen.
OPEN: dict[Stack, tuple[str, ...]] = {
    Stack.MEGATRON: (
        "weight_efficiency", "score_efficiency", "head_efficiency", "product_latency_s",
        "activation_passes", "score_passes", "head_passes", "layer_launch_s", "reduce_launch_s",
        "head_launch_s", "loose_softmax_s", "reduce_factor", "send_factor", "send_latency_s",
        "shard_factor", "gradient_latency_s", "update_bytes", "overhead_s",
    ),
    Stack.MEGATRON_CORE: (
        "weight_efficiency", "fused_score_efficiency", "head_efficiency", "power",
        "product_latency_s", "activation_passes", "dispatch_passes", "layer_launch_s",
        "expert_launch_s", "expert_load", "reduce_overlap", "straggler", "gradient_overlap",
    ),
    Stack.TORCH: (
        "weight_efficiency", "fused_score_efficiency", "head_efficiency",
        "power", "score_cycles", "activation_passes", "head_passes", "shard_factor",
        "overlap_efficiency", "straggler", "update_bytes", "overhead_s",
    ),
    Stack.XLA: (
        "weight_efficiency", "fused_score_efficiency", "overlap_efficiency", "straggler",
    ),
}  # fmt: skip

#: Where a fit begins; Megatron of that time reduced gradients after the last backward pass. Of a
#: compiled step no host launches operators, and half of the passes between products are fused;
#: sustained rates of TPUs are stated without a limit of power, and their vector units keep up.
START: dict[Stack, PlanConstants] = {
    Stack.MEGATRON: PlanConstants(gradient_overlap=0.0),
    Stack.MEGATRON_CORE: PlanConstants(
        weight_efficiency=0.85,
        # Masked halves are passed over; the rest of the kernel hides behind its products.
        score_cycles=0.0,
        product_latency_s=1e-5,
        # A gate and what it multiplies are read and written; copies for experts made and added up.
        inner_passes=2.0,
        dispatch_passes=4.0,
        layer_launch_s=3e-4,
        expert_launch_s=5e-4,
        head_launch_s=1e-4,
        reduce_launch_s=1e-5,
        reduce_overlap=0.5,
        gradient_overlap=0.8,
        expert_load=1.1,
    ),
    Stack.TORCH: PlanConstants(),
    Stack.XLA: PlanConstants(
        weight_efficiency=0.9,
        fused_score_efficiency=0.5,
        head_efficiency=0.8,
        product_latency_s=5e-6,
        power=0.0,
        score_cycles=0.0,
        activation_passes=10.0,
        head_passes=4.0,
        layer_launch_s=0.0,
        reduce_launch_s=0.0,
        head_launch_s=0.0,
        loose_softmax_s=0.0,
    ),
}

#: Weight of a constant's distance (a factor of e, or a logit) from where it began, in log errors.
_PRIOR_WEIGHT = 0.05
_DIFFERENCE = 1e-6
#: Log error from which on the loss is no longer square [c].
_SMALL_ERROR = 0.02
#: The larger of two times has kinks, and so the sum of squares has several valleys: the search
#: begins at the start and at points around it, and the lowest valley wins.
_SPREAD = 0.3
STARTS = 2


def fit_constants(
    cells: PlanCells,
    step_time_s: FloatArray,
    stack: Stack,
    *,
    between: Exchanges | None = None,
    start: PlanConstants | None = None,
    starts: int = STARTS,
) -> PlanConstants:
    """Return the constants under which the equations meet measured steps best.

    Parameters
    ----------
    step_time_s : ndarray, shape (cells,)
        Measured, > 0.
    stack : Stack
        That all the steps ran on; says which constants are open.
    between : Exchanges or None
        Of the same steps, where they are known already.
    start : PlanConstants or None
        Where to begin and what to stay near.
    starts : int
        Points that the search begins at, >= 1.
    """
    known = exchanges(cells) if between is None else between
    begin = START[stack] if start is None else start
    space = _Space(begin, OPEN[stack])
    measured = np.log(step_time_s)
    rows, count = np.arange(len(cells)), len(space.begin)
    again = np.tile(rows, count)
    tiled, tiled_between = cells.take(again), known.take(again)

    def of_answers(x: FloatArray, answers: FloatArray) -> FloatArray:
        return np.concatenate(
            (dampened(np.log(answers) - measured, _SMALL_ERROR), _PRIOR_WEIGHT * (x - space.begin))
        )

    def residuals(x: FloatArray) -> FloatArray:
        return of_answers(x, plan_step(cells, space.constants(x), known).step_time_s)

    def slopes(x: FloatArray, r: FloatArray) -> FloatArray:
        # All steps under all moved constants at once: pipelines cost by the call, not by the row.
        moved = x + _DIFFERENCE * np.eye(count)
        columns = space.columns(moved, len(rows))
        answers = plan_step(tiled, columns, tiled_between).step_time_s.reshape(count, -1)
        each = [of_answers(*one) - r for one in zip(moved, answers, strict=True)]
        return np.stack(each, axis=1) / _DIFFERENCE

    return space.constants(_lowest(residuals, slopes, space.begin, starts))


def _lowest(
    residuals: Callable[[FloatArray], FloatArray],
    slopes: Callable[[FloatArray, FloatArray], FloatArray],
    begin: FloatArray,
    starts: int,
) -> FloatArray:
    around = np.random.default_rng(0).standard_normal((starts, len(begin)))
    around[0] = 0.0
    found = [
        least_squares(residuals, begin + _SPREAD * offset, slopes_of=slopes) for offset in around
    ]
    return min(found, key=lambda x: float(np.square(residuals(x)).sum()))


class _Space:
    """Unknowns without bounds for some of the constants."""

    def __init__(self, start: PlanConstants, names: Sequence[str]) -> None:
        self._start, self._names = start, names
        self._is_share = np.array([n.endswith(("_efficiency", "_overlap")) for n in names])
        values = np.array([getattr(start, name) for name in names])
        self.begin = np.log(values / np.where(self._is_share, 1 - values, 1.0))

    def constants(self, x: FloatArray) -> PlanConstants:
        """Return the constants of a point."""
        values = self._values(x)
        return replace(self._start, **dict(zip(self._names, values.tolist(), strict=True)))

    def columns(self, points: FloatArray, rows: int) -> PlanConstants:
        """Return the constants of some points, those of each for so many rows."""
        values = np.repeat(self._values(points), rows, axis=0).T
        columns: dict[str, Any] = dict(zip(self._names, values, strict=True))
        return replace(self._start, **columns)

    def _values(self, x: FloatArray) -> FloatArray:
        # Far beyond any sensible value; keeps a wild step of the search finite.
        powers = np.exp(np.clip(x, -60.0, 60.0))
        return np.where(self._is_share, powers / (1 + powers), powers)

"""The roofline of a whole step, and how many operators or kernels are called for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import StepTable, step_table


@dataclass(frozen=True, kw_only=True)
class StepWork:
    """What whole steps are made of, shape (steps,) each.

    Parameters
    ----------
    roofline_s : ndarray
        Sum over operators, or over the kernels that a compiler fuses them to.
    calls : ndarray
        Operators that are no views, or kernels.
    """

    roofline_s: FloatArray
    calls: FloatArray


def step_work(steps: Sequence[Step]) -> StepWork:
    """Return the work of each step; where a compiler fuses, operands within a kernel are free."""
    table = step_table(steps, as_stated=True)
    found = [_work(table, step) for step in range(len(steps))]
    roofline_s, calls = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return StepWork(roofline_s=roofline_s, calls=calls)


def _work(table: StepTable, step: int) -> tuple[float, float]:
    sketch = table.sketch_of[step]
    rows = slice(table.start[sketch], table.start[sketch] + table.length[sketch])
    narrow, wide, vector, bandwidth = table.peaks[step, :4]
    matrix = np.where(table.wide[rows], wide, narrow)
    peaks = np.where(table.matrix[rows], matrix, vector)
    fused, count = table.fused[step], table.count[rows]
    moved = table.fused_bytes[rows] if fused else table.traffic_bytes[rows]
    calls = table.fused_launch[rows] if fused else np.ones(len(count))
    times = np.maximum(table.flops[rows] / peaks, moved / bandwidth)
    return float(count @ times), float(count @ calls)

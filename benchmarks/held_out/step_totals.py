"""Totals of a step: what baselines see of it, and nothing of its structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.features.arrays import FloatArray
from perfmodel.features.steps.sketch import ROLE_COLUMNS, StepSketch
from perfmodel.features.steps.step import Step
from perfmodel.types import Compiler, Engine, MemoryFormat, Mode, Precision, Role

_PARAMETERS = ROLE_COLUMNS.index(Role.PARAMETER)
_WIDE_ITEM_BYTES = 4.0
_HALF = (Precision.FP16, Precision.BF16)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTotals:
    """Sums over the nodes of a step.

    Parameters
    ----------
    flops, matrix_flops, traffic_bytes, launches : float
        All of them, those of matrix units, bytes moved, nodes that do work.
    roofline_s : float
        Sum over nodes of the larger of FLOPs over peak and bytes over bandwidth.
    """

    flops: float
    matrix_flops: float
    traffic_bytes: float
    launches: float
    parameters: float
    roofline_s: float


def step_totals(step: Step) -> StepTotals:
    """Return the totals of a step; kept with its sketch."""
    kept = step.sketch.__dict__.setdefault("_totals", {})
    key = (step.accelerator.name, step.precision)
    if key not in kept:
        kept[key] = _sum_up(step)
    found: StepTotals = kept[key]
    return found


def _sum_up(step: Step) -> StepTotals:
    sketch, count = step.sketch, step.sketch.count
    item_bytes = 2.0 if step.precision in _HALF else 4.0
    return StepTotals(
        flops=float(count @ sketch.flops),
        matrix_flops=float(count @ (sketch.flops * sketch.matrix)),
        traffic_bytes=float(count @ sketch.traffic_bytes),
        launches=float(count.sum()),
        parameters=float(sketch.role_bytes[_PARAMETERS]) / item_bytes,
        roofline_s=float(count @ _roofline_s(step, sketch)),
    )


def _roofline_s(step: Step, sketch: StepSketch) -> FloatArray:
    """Matrix work on 4-byte operands runs at the rate of fp32, whatever the precision says."""
    spec = step.accelerator
    vector = spec.flops_per_s(Precision.FP32, Engine.VECTOR)
    narrow = spec.flops_per_s(step.precision, Engine.MATRIX)
    wide = narrow
    if step.precision not in (Precision.FP32, Precision.TF32):
        wide = spec.flops_per_s(Precision.FP32, Engine.MATRIX)
    matrix = np.where(sketch.column("input_item_bytes") >= _WIDE_ITEM_BYTES, wide, narrow)
    peak = np.where(sketch.matrix, matrix, vector)
    times: FloatArray = np.maximum(
        sketch.flops / peak, sketch.traffic_bytes / spec.bandwidth_bytes_per_s
    )
    return times


def setting_of(step: Step) -> tuple[str, ...]:
    """Return what a step runs with, device aside: mode, precision, layout, compiler."""
    return (
        step.accelerator.kind, step.mode.value, step.precision.value, step.memory_format.value,
        step.compiler.value,
    )  # fmt: skip


def job_of(step: Step) -> tuple[str, float, float]:
    """Return what tells one job from another on any device and at any batch size.

    Mode, parameters, and FLOPs of matrix units per sample to four digits: those do not depend
    on the batch size, unlike those of the optimizer.
    """
    totals = step_totals(step)
    per_sample = totals.matrix_flops / step.batch_size
    return step.mode.value, totals.parameters, float(f"{per_sample:.4g}")


def total_columns(steps: Sequence[Step]) -> npt.NDArray[np.float32]:
    """Return the columns of a regressor on totals, shape (steps, columns)."""
    return np.array([_columns(step) for step in steps], dtype=np.float32)


def _columns(step: Step) -> list[float]:
    totals, spec = step_totals(step), step.accelerator
    version = (step.software.get("torch", "0.0").split(".") + ["0"])[:2]
    numbers = [int(part) if part.isdigit() else 0 for part in version]
    sizes = (
        totals.flops, totals.matrix_flops, totals.traffic_bytes, totals.launches,
        totals.parameters, step.batch_size, spec.flops_per_s(step.precision),
        spec.flops_per_s(Precision.FP32, Engine.VECTOR), spec.bandwidth_bytes_per_s,
        spec.cache_bytes or 0.0, spec.core_count or 1, spec.clock_hz or 0.0,
        totals.flops / step.batch_size,
    )  # fmt: skip
    words = [
        step.mode is Mode.TRAINING,
        step.memory_format is MemoryFormat.CHANNELS_LAST,
        step.precision not in (Precision.FP32, Precision.TF32),
        step.precision.value.startswith("amp_"),
        spec.kind == "cpu",
        *(step.compiler is compiler for compiler in Compiler),
    ]
    logs = np.log2(1.0 + np.array(sizes, dtype=np.float64)).tolist()
    return [*logs, *map(float, words), 100.0 * numbers[0] + numbers[1]]

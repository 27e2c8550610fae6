"""What the kernels of a step take on a device, row by row of its sketch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.kernels.sketch_calls import sketch_calls
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.predictors.kernels.kernel_times import (
    DEVICE_LAUNCH_RANGE_S,
    WAIT_S,
    KernelModel,
)
from perfmodel.types import Precision


@dataclass(frozen=True, kw_only=True, eq=False)
class StepKernels:
    """Device time of one node of each row; every field has one entry a row of the sketch.

    Parameters
    ----------
    time_s, low_s, high_s : ndarray
        Without the host that launches the kernels one by one; 0 for rows that move nothing.
    carries_over : ndarray of bool
        Whether such kernels were learned on several devices of the maker.
    """

    time_s: FloatArray
    low_s: FloatArray
    high_s: FloatArray
    carries_over: BoolArray


def step_kernels(
    model: KernelModel, sketch: StepSketch, accelerator: AcceleratorSpec, precision: Precision
) -> StepKernels:
    """Return what the kernels of a step take.

    Parameters
    ----------
    precision : Precision
        In which the matrix work is done on the accelerator.
    """
    asked, rows = sketch_calls(sketch, accelerator, precision), len(sketch.count)
    found = StepKernels(
        time_s=np.zeros(rows),
        low_s=np.zeros(rows),
        high_s=np.zeros(rows),
        carries_over=np.zeros(rows, dtype=np.bool_),
    )
    if not len(asked.row):
        return found
    times, (shortest_s, longest_s) = model.times(asked.calls), DEVICE_LAUNCH_RANGE_S
    found.time_s[asked.row] = (times.device_s + WAIT_S * asked.waits) * asked.repeats
    found.low_s[asked.row] = (times.device_low_s + shortest_s * asked.waits) * asked.repeats
    found.high_s[asked.row] = (times.device_high_s + longest_s * asked.waits) * asked.repeats
    found.carries_over[asked.row] = times.carries_over & asked.has_kernel
    return found

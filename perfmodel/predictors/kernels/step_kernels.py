"""What the kernels of a step take on a device, row by row of its sketch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import BoolArray, FloatArray
from perfmodel.features.kernels.sketch_calls import SketchCalls, sketch_calls
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.graph.cost.base import OpClass
from perfmodel.predictors.kernels.kernel_times import KernelModel
from perfmodel.types import Precision

#: Classes whose streams run at the rate of those in tables of kernels. Reductions and copies that
#: change the order of elements run at a fraction of it.
_STREAMING = tuple(OP_CLASSES.index(c) for c in (OpClass.ELEMENTWISE, OpClass.CREATION))


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
    times = model.times(asked.calls)
    found.time_s[asked.row] = times.device_s * asked.repeats
    found.low_s[asked.row] = times.device_low_s * asked.repeats
    found.high_s[asked.row] = times.device_high_s * asked.repeats
    found.carries_over[asked.row] = times.carries_over & _has_kernel(asked)
    return found


def _has_kernel(asked: SketchCalls) -> BoolArray:
    streams = asked.calls.op == "elementwise"
    return np.asarray(~streams | np.isin(asked.op_class, _STREAMING))

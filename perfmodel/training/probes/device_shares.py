r"""What is particular about a device, to first order: efficiencies of a few kinds of work.

With ``t_j`` the roofline time of the nodes of kind ``j`` and ``e_j`` their efficiency on a device,

    ln T = ln sum_j t_j / e_j,    d ln T / d ln(1 / e_j) = share of kind j in the step,

so that the residual of a device is linear in the shares of the kinds. This is what a probe plan
rests on where no trained learner says better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.features.arrays import FloatArray
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.step import Step
from perfmodel.graph.cost.base import OpClass
from perfmodel.types import Engine, Mode, Precision

#: Kinds of work whose efficiency is a device's own; the last holds nodes shorter than a launch.
KINDS = (
    "convolution, compute bound", "convolution, memory bound", "grouped convolution",
    "matmul and attention, compute bound", "matmul and attention, memory bound",
    "normalization, softmax and reduction", "elementwise and movement", "other",
    "launch bound",
)  # fmt: skip
#: Seconds to launch one operator, by kind of device: order of magnitude.
LAUNCH_S = {"gpu": 5e-6, "cpu": 2e-6, "tpu": 5e-6, "npu": 8e-6}
#: Prior standard deviations: of the efficiency of a kind of work, and of the device as a whole.
_KIND_SPREAD, _DEVICE_SPREAD, _TRAINING_SPREAD = 0.25, 0.25, 0.1
_CODE = {op_class: code for code, op_class in enumerate(OP_CLASSES)}
_NORMALIZING = (OpClass.NORMALIZATION, OpClass.SOFTMAX, OpClass.REDUCTION)
_MOVING = (OpClass.ELEMENTWISE, OpClass.MOVEMENT, OpClass.INDEXING, OpClass.CREATION)
_CONTRACTING = (OpClass.MATMUL, OpClass.ATTENTION, OpClass.RECURRENT)


class DeviceShares:
    """Shares of a step as features of the residual of its device.

    Keeps :class:`~perfmodel.training.probes.probe_plan.ProbeChooser`.
    """

    #: Standard deviation of a log time that no efficiency explains.
    noise_ = 0.06

    def __init__(self) -> None:
        kinds = [_KIND_SPREAD**2] * len(KINDS)
        self.device_prior_: FloatArray = np.array([_DEVICE_SPREAD**2, _TRAINING_SPREAD**2, *kinds])

    def device_features(self, steps: Sequence[Step]) -> FloatArray:
        """Return one, whether it trains, and the share of each kind, shape (steps, 2 + kinds)."""
        rows = [[1.0, float(step.mode is Mode.TRAINING), *kind_shares(step)] for step in steps]
        return np.array(rows, dtype=np.float64)


def kind_shares(step: Step) -> FloatArray:
    """Return the share of each of :data:`KINDS` in the time of a step at the roofline.

    Returns
    -------
    ndarray, shape (len(KINDS),)
        In [0, 1], adding up to 1.
    """
    sketch, spec = step.sketch, step.accelerator
    vector = spec.flops_per_s(Precision.FP32, Engine.VECTOR)
    peak = np.where(sketch.matrix, spec.flops_per_s(step.precision, Engine.MATRIX), vector)
    compute = sketch.flops / peak
    memory = sketch.traffic_bytes / spec.bandwidth_bytes_per_s
    launch = LAUNCH_S[spec.kind]
    time = sketch.count * np.maximum(np.maximum(compute, memory), launch)
    kind = _kinds(step, compute >= memory)
    kind = np.where(np.maximum(compute, memory) < launch, len(KINDS) - 1, kind)
    total = np.bincount(kind, weights=time, minlength=len(KINDS))
    shares: FloatArray = total / max(float(total.sum()), 1e-30)
    return shares


def _kinds(step: Step, compute_bound: np.ndarray) -> np.ndarray:
    sketch = step.sketch

    def among(classes: Sequence[OpClass]) -> np.ndarray:
        return np.isin(sketch.op_class, [_CODE[c] for c in classes])

    convolution = among((OpClass.CONVOLUTION,))
    return np.select(
        [
            convolution & (sketch.column("log_groups") > 1.0),
            convolution & compute_bound,
            convolution,
            among(_CONTRACTING) & compute_bound,
            among(_CONTRACTING),
            among(_NORMALIZING),
            among(_MOVING),
        ],
        [2, 0, 1, 3, 4, 5, 6],
        default=7,
    )

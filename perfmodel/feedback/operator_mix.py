"""Of which operators the work of a step is: the class that jobs are told apart by."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.graph.cost.base import OpClass

#: What operators are called, coarsely; all others are point-wise: they move bytes.
_COARSE = {
    OpClass.MATMUL: "products",
    OpClass.RECURRENT: "products",
    OpClass.CONVOLUTION: "convolutions",
    OpClass.ATTENTION: "attention",
}
POINTWISE, MIXED, UNKNOWN = "point-wise", "mixed", "unknown"
#: FLOPs that take as long as moving a byte, on accelerators between a CPU and a tensor core.
_FLOPS_OF_A_BYTE = 32.0
#: Share of the work from which a step is called by its operators.
_MOST = 0.4


def operator_mix(sketch: StepSketch) -> Mapping[str, float]:
    """Return the share of the work of each coarse class of operators.

    The work of a node is the larger of its FLOPs and 32 times its bytes of traffic.

    Returns
    -------
    mapping of str to float
        Adds up to 1; empty for a step without work.
    """
    each = np.maximum(sketch.flops, _FLOPS_OF_A_BYTE * sketch.traffic_bytes) * sketch.count
    whole = float(each.sum())
    found: dict[str, float] = {}
    for code, work in zip(sketch.op_class, each, strict=True):
        name = _COARSE.get(OP_CLASSES[code], POINTWISE)
        found[name] = found.get(name, 0.0) + float(work) / whole if whole > 0 else 0.0
    return found


def operator_class(mix: Mapping[str, float]) -> str:
    """Return what a step is of: the class of most of its work, if that is much of it.

    Examples
    --------
    >>> operator_class({"convolutions": 0.7, "point-wise": 0.3})
    'convolutions'
    >>> operator_class({"convolutions": 0.35, "products": 0.3, "point-wise": 0.35})
    'mixed'
    """
    if not mix:
        return UNKNOWN
    name = max(sorted(mix), key=lambda one: mix[one])
    return name if mix[name] >= _MOST else MIXED

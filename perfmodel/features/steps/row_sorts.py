"""Sorts of rows that settings treat alike: which kernels a library would pick from.

A layout or a release of a library changes the speed of some kernels and leaves others alone:
grouped convolutions in channels-last train several times slower than in channels-first on some
releases, dense ones faster. A row therefore belongs to one sort.
"""

from __future__ import annotations

import numpy as np

from perfmodel.features.arrays import IntArray
from perfmodel.features.steps.sketch import StepSketch

_CONVOLUTIONS = ("dense_convolution", "grouped_convolution", "depthwise_convolution")
_OTHERS = (
    "attention", "normalization", "softmax", "pooling", "elementwise", "reduction", "movement",
    "indexing",
)  # fmt: skip

#: Forward and backward kernels of convolutions and products are picked apart.
ROW_SORTS: tuple[str, ...] = (
    *_CONVOLUTIONS,
    *(f"{name}_backward" for name in _CONVOLUTIONS),
    "matmul",
    "matmul_backward",
    *_OTHERS,
    "other",
)


def row_sorts(sketch: StepSketch) -> IntArray:
    """Return the position in :data:`ROW_SORTS` of every row of a sketch, shape (rows,)."""
    backward = sketch.column("phase_backward") > 0
    sorts = np.full(len(backward), len(ROW_SORTS) - 1, dtype=np.int64)
    for name in _OTHERS:
        sorts[sketch.column(f"class_{name}") > 0] = ROW_SORTS.index(name)
    product = sketch.column("class_matmul") > 0
    sorts[product] = ROW_SORTS.index("matmul") + backward[product]
    convolution = sketch.column("class_convolution") > 0
    # log2 of 1 + groups: above 1 for two groups and more.
    shared = np.where(sketch.column("log_groups") > 1.25, 1, 0)
    width = np.where(sketch.column("depthwise") > 0, 2, shared)
    sorts[convolution] = (width + len(_CONVOLUTIONS) * backward)[convolution]
    return sorts

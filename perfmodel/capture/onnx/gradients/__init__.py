"""Backward rules: which ATen operators autograd runs for each forward one."""

from perfmodel.capture.onnx.gradients import (
    elementwise,
    indexing,
    layers,
    matmul,
    movement,
    reduction,
)
from perfmodel.capture.onnx.gradients.base import GRADIENTS, Backward

__all__ = [
    "GRADIENTS", "Backward", "elementwise", "indexing", "layers", "matmul", "movement",
    "reduction",
]  # fmt: skip

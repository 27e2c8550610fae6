"""Translation rules: what each ONNX operator is in ATen's vocabulary, one file per class."""

from perfmodel.capture.onnx.rules import (
    attention,
    convolution,
    elementwise,
    indexing,
    matmul,
    movement,
    normalization,
    pooling,
    quantized,
    recurrent,
    reduction,
    sequence,
)

__all__ = [
    "attention", "convolution", "elementwise", "indexing", "matmul", "movement",
    "normalization", "pooling", "quantized", "recurrent", "reduction", "sequence",
]  # fmt: skip

"""Translation rules: what each ONNX operator is in ATen's vocabulary, one file per class."""

from perfmodel.capture.onnx.rules import (
    attention,
    contrib,
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
    resampling,
    sequence,
)

__all__ = [
    "attention", "contrib", "convolution", "elementwise", "indexing", "matmul", "movement",
    "normalization", "pooling", "quantized", "recurrent", "reduction", "resampling", "sequence",
]  # fmt: skip

"""Which element type an operator works in, as ``torch.autocast`` decides it.

References
----------
PyTorch documentation, "Automatic Mixed Precision package", lists of CUDA operators that
autocast to float16 and to float32.
"""

from __future__ import annotations

from perfmodel.errors import CaptureError
from perfmodel.types import Precision

_HALF = {Precision.AMP_FP16: "float16", Precision.AMP_BF16: "bfloat16"}
_WHOLE = {
    Precision.FP32: "float32",
    Precision.TF32: "float32",
    Precision.AMP_FP16: "float32",
    Precision.AMP_BF16: "float32",
    Precision.FP16: "float16",
    Precision.BF16: "bfloat16",
}
_NARROWED = frozenset(
    {"convolution", "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "_prelu_kernel", "lstm", "gru",
     "rnn_tanh", "rnn_relu", "scaled_dot_product_attention"}
)  # fmt: skip
_WIDENED = frozenset(
    {"exp", "expm1", "log", "log2", "log10", "log1p", "pow", "reciprocal", "rsqrt", "acos",
     "asin", "cosh", "sinh", "tan", "_softmax", "_log_softmax", "cumsum", "cumprod", "prod",
     "sum", "linalg_vector_norm", "native_layer_norm", "native_group_norm", "softplus",
     "logsumexp"}
)  # fmt: skip


def check_precision(precision: Precision | None) -> None:
    """Refuse a precision to which an ONNX graph cannot be re-typed.

    Raises
    ------
    CaptureError
        fp8 or int8: what is quantised, and how, must stand in the file.
    """
    if precision is not None and precision not in _WHOLE:
        raise CaptureError(
            f"An ONNX graph cannot be re-typed to {precision.value}: what is quantised must "
            "stand in the file. Quantise it (QLinearConv, QuantizeLinear, ...) and capture it "
            f"without a precision, or use one of {', '.join(p.value for p in _WHOLE)}.",
            pointer="/precision",
            allowed=[p.value for p in _WHOLE],
        )


def retyped(dtype: str, precision: Precision | None) -> str:
    """Return the type in which a float of the file is held; float64 and integers stay.

    Examples
    --------
    >>> retyped("float32", Precision.BF16), retyped("int64", Precision.BF16)
    ('bfloat16', 'int64')
    """
    if precision is None or dtype not in ("float32", "float16", "bfloat16"):
        return dtype
    return _WHOLE[precision]


def cast_target(op: str, precision: Precision | None, dtype: str) -> str | None:
    """Return the type to which autocast brings an operator's float argument, or None.

    Examples
    --------
    >>> cast_target("addmm", Precision.AMP_FP16, "float32")
    'float16'
    >>> cast_target("_softmax", Precision.AMP_FP16, "float16")
    'float32'
    """
    half = _HALF.get(precision) if precision is not None else None
    if half is None or dtype not in ("float32", half):
        return None
    if op in _NARROWED:
        return half
    return "float32" if op in _WIDENED else None

"""Quantised operators: the same arithmetic on 8-bit tensors.

Products of 8-bit integers keep the names of the float operators; their tensors' dtypes say
how wide they are. Scales and zero points are read with them but change no shape.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfmodel.capture.onnx.autocast import retyped
from perfmodel.capture.onnx.builder import Value
from perfmodel.capture.onnx.call import MICROSOFT, Call, translates
from perfmodel.capture.onnx.rules.convolution import convolve
from perfmodel.capture.onnx.rules.elementwise import binary
from perfmodel.capture.onnx.rules.matmul import product


@translates("QLinearConv")
def _qlinear_conv(call: Call) -> Value:
    out = call.input(7).dtype
    return convolve(call, call.input(0), call.input(3), call.optional(8), out)


@translates("ConvInteger")
def _conv_integer(call: Call) -> Value:
    return convolve(call, call.input(0), call.input(1), None, "int32")


@translates("QLinearMatMul")
def _qlinear_matmul(call: Call) -> Value:
    return product(call, call.input(0), call.input(3), call.input(7).dtype)


@translates("MatMulInteger")
def _matmul_integer(call: Call) -> Value:
    return product(call, call.input(0), call.input(1), "int32")


@translates("MatMulIntegerToFloat", "DynamicQuantizeMatMul", domains=(MICROSOFT,))
def _matmul_to_float(call: Call) -> Value:
    to_float = call.node.op == "MatMulIntegerToFloat"
    dtype = retyped(call.input(2).dtype, call.builder.precision)
    bias = call.optional(6 if to_float else 4)
    left = call.input(0)
    if not to_float:
        left = call.cast(left, "uint8", mark="quantize")
    out = product(call, left, call.input(1), dtype)
    return out if bias is None else binary(call, "add", out, bias, mark="add")


@translates("QuantizeLinear", domains=("", MICROSOFT))
def _quantize(call: Call) -> Value:
    point = call.optional(2)
    return call.cast(call.input(0), point.dtype if point is not None else "uint8")


@translates("DequantizeLinear", domains=("", MICROSOFT))
def _dequantize(call: Call) -> Value:
    dtype = retyped(call.input(1).dtype, call.builder.precision)
    return call.cast(call.input(0), dtype)


@translates("DynamicQuantizeLinear")
def _dynamic_quantize(call: Call) -> Sequence[Value]:
    value = call.input(0)
    low, _ = call.emit_many(
        "aminmax", [value], [((), value.dtype), ((), value.dtype)], mark="aminmax"
    )
    point = call.cast(low, "uint8", mark="point")
    return [call.cast(value, "uint8"), low, point]


@translates("QLinearAdd", "QLinearMul", domains=(MICROSOFT,))
def _qlinear_binary(call: Call) -> Value:
    op = "add" if call.node.op == "QLinearAdd" else "mul"
    return binary(call, op, call.input(0), call.input(3))


@translates("QLinearGlobalAveragePool", domains=(MICROSOFT,))
def _qlinear_pool(call: Call) -> Value:
    value = call.input(0)
    shape = (*value.shape[:2], *([1] * (value.rank - 2)))
    return call.emit("mean", [value], shape, dim=tuple(range(2, value.rank)), keepdim=True)

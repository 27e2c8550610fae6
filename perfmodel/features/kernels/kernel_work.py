"""The work of a kernel call: arithmetic, traffic, and the matrix product that it resembles.

One formula an operator, on columns. FLOPs count a multiply-add as two. Traffic is compulsory:
every operand once. The resembled product (``batch`` times ``m x n`` outputs of depth ``k``) says
how the work can be cut into tiles; point-wise operators have depth 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, UnknownWordError
from perfmodel.features.arrays import Columns, FloatArray, IntArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.types import Precision


@dataclass(frozen=True, kw_only=True)
class KernelDtype:
    """Storage and arithmetic of one kind of kernel.

    Parameters
    ----------
    rate : Precision
        Whose matrix rate the arithmetic runs at.
    input_bytes, weight_bytes, output_bytes : float
        Bytes an element; block scales included.
    scaled : float
        Elements that share a scale, 0 where there is none.
    speed_up : float
        Peak over that of ``rate``, on accelerators that have the narrower type.
    """

    rate: Precision
    input_bytes: float
    weight_bytes: float
    output_bytes: float
    scaled: float = 0.0
    speed_up: float = 1.0


def _plain(rate: Precision, size: float) -> KernelDtype:
    return KernelDtype(rate=rate, input_bytes=size, weight_bytes=size, output_bytes=size)


def _narrow(rate: Precision, given: float, weight: float, scaled: float = 0.0) -> KernelDtype:
    """Return a type whose results are stored in sixteen bits."""
    return KernelDtype(
        rate=rate, input_bytes=given, weight_bytes=weight, output_bytes=2.0, scaled=scaled
    )


#: Four-bit elements with an eight-bit scale for every 16 (nvfp4) or 32 (mxfp4) of them.
_NVFP4_BYTES = 0.5 + 1 / 16
_MXFP4_BYTES = 0.5 + 1 / 32

#: Operators whose arithmetic runs at the rate of their type; that of others is plain fp32.
MATRIX_OPS = ("gemm", "bmm", "conv2d", "attention_prefill", "attention_decode", "moe")

DTYPES: Mapping[str, KernelDtype] = MappingProxyType(
    {
        "fp32": _plain(Precision.FP32, 4.0),
        "tf32": _plain(Precision.TF32, 4.0),
        "fp16": _plain(Precision.FP16, 2.0),
        "bf16": _plain(Precision.BF16, 2.0),
        "fp8": _narrow(Precision.FP8, 1.0, 1.0),
        "fp8_block": _narrow(Precision.FP8, 1.0, 1.0, 128.0),
        "int8": _narrow(Precision.INT8, 1.0, 1.0),
        "w8a16": _narrow(Precision.BF16, 2.0, 1.0),
        "w4a16": _narrow(Precision.BF16, 2.0, 0.5),
        "w4a16_mxfp4": _narrow(Precision.BF16, 2.0, _MXFP4_BYTES, 32.0),
        "w4a8_mxfp4": _narrow(Precision.FP8, 1.0, _MXFP4_BYTES, 32.0),
        "nvfp4": KernelDtype(
            rate=Precision.FP8,
            input_bytes=_NVFP4_BYTES,
            weight_bytes=_NVFP4_BYTES,
            output_bytes=2.0,
            scaled=16.0,
            speed_up=2.0,
        ),
    }
)


def kernel_dtype(word: str) -> KernelDtype:
    """Return what a type is; raises UnknownWordError for one that is not known."""
    if word not in DTYPES:
        raise UnknownWordError(word, field="dtype", known=sorted(DTYPES))
    return DTYPES[word]


def peak_flops_per_s(dtype: KernelDtype, device: AcceleratorSpec) -> float:
    """Return the peak rate of matrix work of a type on a device, in FLOP/s."""
    return device.flops_per_s(dtype.rate) * (dtype.speed_up if device.has_fp4 else 1.0)


def has_units(dtype: KernelDtype, device: AcceleratorSpec) -> bool:
    """Tell whether a device has matrix units for a type, or computes it as a wider one."""
    return device.supports(dtype.rate) and (device.has_fp4 or dtype.speed_up == 1.0)


@dataclass(frozen=True, kw_only=True)
class KernelWork(Columns):
    """Work of many calls; every field has one entry a call.

    Parameters
    ----------
    flops : ndarray
        Floating-point operations, >= 0.
    least_flops : ndarray
        What the fewest multiplications of a known algorithm come to (Winograd convolutions).
    input_bytes, weight_bytes, output_bytes : ndarray
        Compulsory traffic; weights are what does not change from call to call, or the cache of
        keys and values.
    batch, m, n, k : ndarray
        The matrix product that the call resembles, each >= 1.
    """

    flops: FloatArray
    least_flops: FloatArray
    input_bytes: FloatArray
    weight_bytes: FloatArray
    output_bytes: FloatArray
    batch: FloatArray
    m: FloatArray
    n: FloatArray
    k: FloatArray

    @property
    def traffic_bytes(self) -> FloatArray:
        """All compulsory traffic."""
        return self.input_bytes + self.weight_bytes + self.output_bytes


_Columns = Callable[[str], FloatArray]
_Formula = Callable[[_Columns, KernelDtype], KernelWork]


def kernel_work(calls: KernelCalls) -> KernelWork:
    """Return the work of every call.

    Raises
    ------
    UnknownWordError
        An operator or type without a formula.
    InvalidInputError
        An extent that an operator needs is missing, not finite or below its least value.
    """
    names = [field.name for field in fields(KernelWork)]
    columns = {name: np.zeros(len(calls)) for name in names}
    for op in np.unique(calls.op).tolist():
        if op not in FORMULAS:
            raise UnknownWordError(op, field="operator", known=sorted(FORMULAS))
        of_op = calls.op == op
        for word in np.unique(calls.dtype[of_op]).tolist():
            rows = np.flatnonzero(of_op & (calls.dtype == word))
            work = FORMULAS[op](_reader(calls, rows, op), kernel_dtype(word))
            for name in names:
                columns[name][rows] = getattr(work, name)
    return KernelWork(**columns)


def _reader(calls: KernelCalls, rows: IntArray, op: str) -> _Columns:
    def read(name: str) -> FloatArray:
        column = calls.shape.get(name)
        values = np.full(len(rows), np.nan) if column is None else column[rows]
        least = 0.0 if name in ("context", "skew", "pad") else 1.0
        if not np.all(np.isfinite(values) & (values >= least)):
            raise InvalidInputError(
                f"A call of {op!r} needs the extent {name!r}, a finite number of at least "
                f"{least:g}; it is missing or smaller in "
                f"{int(np.count_nonzero(~(values >= least)))} of {len(rows)} calls."
            )
        return values

    return read


def _product(
    batch: FloatArray | float,
    m: FloatArray,
    n: FloatArray,
    k: FloatArray,
    dtype: KernelDtype,
) -> KernelWork:
    """``2 b m n k`` FLOPs; ``b (m k + k n + m n)`` elements."""
    batch = np.broadcast_to(np.asarray(batch, dtype=np.float64), m.shape)
    flops = 2.0 * batch * m * n * k
    return KernelWork(
        flops=flops,
        least_flops=flops,
        input_bytes=batch * m * k * dtype.input_bytes,
        weight_bytes=batch * n * k * dtype.weight_bytes,
        output_bytes=batch * m * n * dtype.output_bytes,
        batch=batch,
        m=m,
        n=n,
        k=k,
    )


def _gemm(read: _Columns, dtype: KernelDtype) -> KernelWork:
    return _product(1.0, read("m"), read("n"), read("k"), dtype)


def _bmm(read: _Columns, dtype: KernelDtype) -> KernelWork:
    return _product(read("batch"), read("m"), read("n"), read("k"), dtype)


def _conv2d(read: _Columns, dtype: KernelDtype) -> KernelWork:
    """Implicit matrix product; every input pixel is read once, not once a tap.

    Winograd's F(4x4, 3x3) needs 36 multiplications for 16 outputs of 9 taps: a quarter.
    """
    pixels = read("batch") * read("height_out") * read("width_out")
    kernel, stride = read("kernel"), read("stride")
    work = _product(1.0, pixels, read("c_out"), read("c_in") * kernel**2, dtype)
    winograd = (kernel == 3) & (stride == 1)
    columns = {field.name: getattr(work, field.name) for field in fields(KernelWork)}
    columns["least_flops"] = np.where(winograd, work.flops / 4.0, work.flops)
    columns["input_bytes"] = pixels * stride**2 * read("c_in") * dtype.input_bytes
    return KernelWork(**columns)


def _attention(read: _Columns, dtype: KernelDtype) -> KernelWork:
    """Causal attention of ``t`` new tokens after ``c``: ``4 b h d (t c + t (t + 1) / 2)`` FLOPs."""
    batch, tokens, context = read("batch"), read("tokens"), read("context")
    heads, kv_heads, width = read("heads"), read("kv_heads"), read("head_dim")
    pairs = tokens * context + tokens * (tokens + 1) / 2
    flops = 4.0 * batch * heads * width * pairs
    sixteen_bit = max(dtype.output_bytes, 2.0)
    # One group of query heads shares its keys: the rows of the product, where tokens are few.
    group = heads / kv_heads
    return KernelWork(
        flops=flops,
        least_flops=flops,
        input_bytes=batch * tokens * heads * width * sixteen_bit,
        weight_bytes=2 * batch * (tokens + context) * kv_heads * width * read("kv_element_bytes"),
        output_bytes=batch * tokens * heads * width * sixteen_bit,
        batch=batch * kv_heads,
        m=tokens * group,
        n=width,
        k=pairs / tokens,
    )


def _moe(read: _Columns, dtype: KernelDtype) -> KernelWork:
    """Gated experts: three matrices of ``hidden x inter`` each, on one rank of the plan.

    ``rows = tokens top_k / expert_parallel`` tokens reach the rank when the load is even. Of its
    ``experts / expert_parallel`` experts those are read that get a token:
    ``e (1 - (1 - 1 / experts) ** (tokens top_k))``.
    """
    tokens, hidden = read("tokens"), read("hidden")
    chosen, experts = tokens * read("top_k"), read("experts")
    inter = np.maximum(read("inter") / read("tensor_parallel"), 1.0)
    local = np.maximum(experts / read("expert_parallel"), 1.0)
    rows = np.maximum(chosen / read("expert_parallel"), 1.0)
    touched = local * -np.expm1(chosen * np.log1p(-1.0 / np.maximum(experts, 2.0)))
    touched = np.clip(touched, 1.0, np.minimum(local, rows))
    flops = 6.0 * rows * hidden * inter
    return KernelWork(
        flops=flops,
        least_flops=flops / 3.0,
        input_bytes=np.minimum(tokens, rows) * hidden * dtype.input_bytes,
        weight_bytes=3.0 * touched * hidden * inter * dtype.weight_bytes,
        output_bytes=np.minimum(tokens, rows) * hidden * dtype.output_bytes,
        batch=touched,
        m=np.maximum(rows / touched, 1.0),
        n=2.0 * inter,
        k=hidden,
    )


def _pointwise(flops_per_element: float, inputs: float | None = None) -> _Formula:
    """Return the formula that reads each input and writes one output of ``rows x width``."""

    def formula(read: _Columns, dtype: KernelDtype) -> KernelWork:
        rows, width = read("rows"), read("width")
        elements = rows * width
        copies = read("inputs") if inputs is None else np.full(len(rows), inputs)
        flops = flops_per_element * elements
        return KernelWork(
            flops=flops,
            least_flops=np.zeros(len(rows)),
            input_bytes=copies * elements * dtype.input_bytes,
            weight_bytes=np.zeros(len(rows)),
            output_bytes=elements * dtype.output_bytes,
            batch=np.ones(len(rows)),
            m=rows,
            n=width,
            k=np.ones(len(rows)),
        )

    return formula


#: Operator to formula. The FLOPs of point-wise operators are those of a simple implementation.
FORMULAS: Mapping[str, _Formula] = MappingProxyType(
    {
        "gemm": _gemm,
        "bmm": _bmm,
        "conv2d": _conv2d,
        "attention_prefill": _attention,
        "attention_decode": _attention,
        "moe": _moe,
        "layer_norm": _pointwise(8.0, 1.0),
        "rms_norm": _pointwise(5.0, 1.0),
        "softmax": _pointwise(6.0, 1.0),
        "embedding": _pointwise(0.0, 1.0),
        "rope": _pointwise(3.0, 1.0),
        "elementwise": _pointwise(1.0),
        "add": _pointwise(1.0),
        "mul": _pointwise(1.0),
        "div": _pointwise(4.0),
        "pow": _pointwise(20.0),
        "relu": _pointwise(1.0),
        "gelu": _pointwise(12.0),
        "tanh": _pointwise(10.0),
        "silu_mul": _pointwise(8.0),
    }
)

"""The nodes of a step as calls of kernels: what each class of equal nodes asks of a device.

A sketch keeps extents as logarithms in single precision, which is exact enough to restore them to
five digits. Of attention it keeps the batch times the heads, the queries and the width of a head;
the mean number of keys that a query sees follows from the FLOPs. What has no kernel of its own in
tables of kernels (copies, reductions, fills, optimizers) is a stream of its compulsory traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.features.arrays import BoolArray, FloatArray, IntArray, StrArray
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.features.kernels.kernel_work import DTYPES
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.sketch import StepSketch
from perfmodel.graph.cost.base import OpClass
from perfmodel.types import Precision

#: Products whose leading axes are rows of one matrix.
_FOLDED = ("mm", "addmm", "linear", "_addmm_activation", "_scaled_mm", "mv", "addmv", "_int_mm")
_ALONG_ROWS = MappingProxyType(
    {
        "softmax": ("softmax", "_softmax", "log_softmax", "_log_softmax"),
        "layer_norm": ("native_layer_norm", "layer_norm"),
        "rms_norm": ("_fused_rms_norm", "rms_norm"),
    }
)
#: Products of a backward pass of attention over those of a forward one: five and two.
_BACKWARD_PRODUCTS = 2.5
_WIDE_ITEM_BYTES = 4.0
#: Heads that a fused kernel of attention is taken to have at most beside each other.
_HEADS = 32.0
#: How often the blocks of a stream wait for each other: a sum is one of parts, and then of what
#: these came to; a norm over other axes than the last is written after that.
_WAITS = MappingProxyType(
    {
        OpClass.REDUCTION: 1.0,
        OpClass.SOFTMAX: 1.0,
        OpClass.NORMALIZATION: 2.0,
    }
)
#: What streams in order: classes, and copies that change the type alone. Others that move change
#: the order of elements, and run at a fraction of the rate.
_IN_ORDER = tuple(
    OP_CLASSES.index(c) for c in (OpClass.ELEMENTWISE, OpClass.CREATION, OpClass.REDUCTION)
)
_CASTS = ("_to_copy",)
#: Of convolutions in tables of kernels. Vision transformers cut patches by larger ones, whose few
#: channels fill little of the units.
_LARGEST_KERNEL, _LARGEST_STRIDE = 7.0, 2.0
#: Extents below it are restored exactly.
_EXACT = 2.0**16
#: Most operands that a stream reads for each that it writes.
_MOST_INPUTS = 4.0


@dataclass(frozen=True, kw_only=True)
class SketchCalls:
    """Calls of the rows of one sketch on one accelerator.

    Parameters
    ----------
    row : ndarray of int64, shape (calls,)
        Row of the sketch that a call stands for; rows that move nothing have none.
    repeats : ndarray, shape (calls,)
        How often one node of the row runs such a kernel: once for each gradient.
    op_class : ndarray of int8, shape (calls,)
        Code of :data:`~perfmodel.features.nodes.OP_CLASSES`.
    waits : ndarray, shape (calls,)
        How often blocks of a stream wait for each other, which a plain stream never does.
    has_kernel : ndarray of bool, shape (calls,)
        Whether such kernels stand in tables: products and what works along rows do, convolutions as
        far as their kernels and strides do, and streams that keep the order of their elements.
    """

    calls: KernelCalls
    row: IntArray
    repeats: FloatArray
    op_class: IntArray
    waits: FloatArray
    has_kernel: BoolArray


def sketch_calls(
    sketch: StepSketch, accelerator: AcceleratorSpec, precision: Precision
) -> SketchCalls:
    """Return what kernels the nodes of a step run.

    Parameters
    ----------
    precision : Precision
        In which the matrix work is done on the accelerator.
    """
    table = _Rows(sketch, precision)
    table.products()
    table.convolutions()
    table.attention()
    table.along_rows()
    table.streams()
    row = np.flatnonzero(table.op != "")
    streams = table.op == "elementwise"
    waits = np.array([_WAITS.get(OP_CLASSES[code], 0.0) for code in sketch.op_class])
    in_order = np.isin(sketch.op_class, _IN_ORDER) | np.isin(table.names, _CASTS)
    calls = KernelCalls(
        op=table.op[row],
        dtype=table.dtype[row],
        kernel=np.full(len(row), "", dtype="<U1"),
        device=np.zeros(len(row), dtype=np.int64),
        devices=(accelerator,),
        shape=MappingProxyType({name: column[row] for name, column in table.shape.items()}),
    )
    return SketchCalls(
        calls=calls,
        row=row.astype(np.int64),
        repeats=table.repeats[row],
        op_class=sketch.op_class[row].astype(np.int64),
        waits=np.where(streams, waits, 0.0)[row],
        has_kernel=(np.where(streams, in_order, ~table.is_beyond_tables))[row],
    )


class _Rows:
    """The columns of calls while they are filled, class by class."""

    def __init__(self, sketch: StepSketch, precision: Precision) -> None:
        self.sketch = sketch
        rows = len(sketch.count)
        self.op: StrArray = np.full(rows, "", dtype="<U17")
        self.repeats: FloatArray = np.ones(rows)
        self.shape: dict[str, FloatArray] = {}
        self.is_beyond_tables: BoolArray = np.zeros(rows, dtype=np.bool_)
        self.wide: BoolArray = sketch.column("input_item_bytes") >= _WIDE_ITEM_BYTES
        self.dtype: StrArray = np.where(self.wide, *_words(precision)).astype("<U12")
        self.names = np.array([op.rstrip("_") for op in sketch.ops], dtype=np.str_)

    def products(self) -> None:
        """Matrix products; those of one matrix for all rows are not batched."""
        batch, m, n, k = self._gemm()
        rows = self._of(OpClass.MATMUL) & (k >= 1)
        folded = rows & (np.isin(self.names, _FOLDED) | (batch <= 1))
        self._set(folded, "gemm", m=batch * m, n=n, k=k)
        self._set(rows & ~folded, "bmm", batch=batch, m=m, n=n, k=k)

    def convolutions(self) -> None:
        """Convolutions; groups beside each other are a batch of products, depthwise ones streams.

        A gradient multiplies as much as the forward pass, so that it counts as one of its own.
        """
        groups, c_in, c_out = (self._extent(f"log_{n}") for n in ("groups", "channels_in",
                                                                 "channels_out"))  # fmt: skip
        area, pixels, width = (
            self._extent(f"log_{n}") for n in ("kernel_area", "spatial_out", "width_out")
        )
        rows = self._of(OpClass.CONVOLUTION) & (groups >= 1) & ((c_in > 1) | (groups == 1))
        gradients = np.clip(self.sketch.column("gradients"), 1.0, 2.0).astype(np.float64)
        each = np.maximum(2.0 * pixels * groups * c_in * c_out * area * gradients, 1.0)
        batch = np.maximum(np.round(self.sketch.flops / each), 1.0)
        self.repeats[rows] = gradients[rows]
        self._set(
            rows & (groups == 1), "conv2d", batch=batch, c_in=c_in, c_out=c_out,
            kernel=np.sqrt(area), height_out=pixels / np.maximum(width, 1.0), width_out=width,
            stride=np.maximum(self.sketch.column("stride").astype(np.float64), 1.0),
            pad=np.zeros(len(rows)),
        )  # fmt: skip
        stride = self.sketch.column("stride")
        self.is_beyond_tables |= rows & (
            (np.sqrt(area) > _LARGEST_KERNEL) | (stride > _LARGEST_STRIDE)
        )
        self._set(rows & (groups > 1), "bmm", batch=groups, m=batch * pixels, n=c_out,
                  k=c_in * area)  # fmt: skip

    def attention(self) -> None:
        """Fused attention; where a query sees few keys of others, or in 32 bits, products."""
        batch, tokens, width, k = self._gemm()
        backward = np.char.endswith(self.names, "backward")
        seen = k / np.where(backward, 2.0 * _BACKWARD_PRODUCTS, 2.0)
        rows = self._of(OpClass.ATTENTION) & (seen >= 0.5)
        self.repeats[rows & backward] = _BACKWARD_PRODUCTS
        context = np.round(seen - (tokens + 1.0) / 2.0)
        fused = rows & ~self.wide & (context >= 0)
        heads = np.minimum(batch, _HEADS)
        facts = {
            "batch": np.maximum(np.round(batch / np.maximum(heads, 1.0)), 1.0), "tokens": tokens,
            "context": context, "heads": heads, "kv_heads": heads, "head_dim": width,
            "kv_element_bytes": np.full(len(rows), 2.0),
        }  # fmt: skip
        self._set(fused & (tokens > 1), "attention_prefill", **facts)
        self._set(fused & (tokens <= 1), "attention_decode", **facts)
        self._set(rows & ~fused, "bmm", batch=batch, m=tokens, n=width,
                  k=np.maximum(2.0 * seen, 1.0))  # fmt: skip

    def along_rows(self) -> None:
        """Softmax and norms over the last axis."""
        elements, width = self._extent("log_largest_input"), self._extent("log_last_extent")
        for op, names in _ALONG_ROWS.items():
            rows = np.isin(self.names, names) & (width >= 1) & (elements >= width)
            self._narrow(rows)
            self._set(rows, op, rows=elements / np.maximum(width, 1.0), width=width)

    def streams(self) -> None:
        """All else: as many elements, read so many times for each written, as it moves bytes."""
        sketch = self.sketch
        rows = (self.op == "") & (sketch.traffic_bytes > 0)
        self._narrow(rows)
        size = np.where(self.wide, 4.0, 2.0)
        written = np.exp2(sketch.column("log_written_bytes").astype(np.float64))
        inputs = np.clip(np.round(sketch.traffic_bytes / written - 1.0), 1.0, _MOST_INPUTS)
        elements = np.maximum(sketch.traffic_bytes / size / (1.0 + inputs), 1.0)
        width = np.clip(self._extent("log_last_extent"), 1.0, elements)
        self._set(rows, "elementwise", rows=np.maximum(elements / width, 1.0), width=width,
                  inputs=inputs)  # fmt: skip

    def _of(self, op_class: OpClass) -> BoolArray:
        is_class = self.sketch.op_class == OP_CLASSES.index(op_class)
        return np.asarray(is_class & (self.sketch.flops > 0))

    def _extent(self, name: str) -> FloatArray:
        """Return a column as it was before its logarithm; long extents as multiples of 64."""
        found = np.exp2(self.sketch.column(name).astype(np.float64)) - 1.0
        return np.where(found < _EXACT, np.round(found, 2), 64.0 * np.round(found / 64.0))

    def _gemm(self) -> tuple[FloatArray, ...]:
        return tuple(
            np.maximum(self._extent(f"log_gemm_{n}"), 0.0) for n in ["batch", "m", "n", "k"]
        )

    def _narrow(self, rows: BoolArray) -> None:
        """Let streams be of four or two bytes; they have no matrix rate."""
        self.dtype[rows] = np.where(self.wide[rows], "fp32", "fp16")

    def _set(self, which: BoolArray, op: str, **extents: FloatArray) -> None:
        self.op[which] = op
        for name, values in extents.items():
            column = self.shape.setdefault(name, np.full(len(which), np.nan))
            column[which] = np.maximum(values[which], 0.0 if name in ("context", "pad") else 1.0)


def _words(precision: Precision) -> tuple[str, str]:
    """Return the type of products on operands of four bytes, and of narrower ones."""
    wide = "tf32" if precision is Precision.TF32 else "fp32"
    narrow = precision.matrix_rate
    return wide, narrow if narrow in DTYPES and narrow not in ("fp32", "tf32") else "fp16"

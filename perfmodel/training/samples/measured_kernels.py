"""Measured kernels, as columns of calls and as steps of one operator.

Trees of kernels learn from the first, the node network from the second, beside whole steps. There
each record becomes a graph of one node, priced as in any model. Only what a graph can say is taken:
plain products, convolutions, point-wise operators, normalisation, softmax and attention without a
cache, in the types that PyTorch computes in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import TrainingError
from perfmodel.features.arrays import Columns, FloatArray, IntArray
from perfmodel.features.kernels.kernel_calls import KernelCalls, kernel_calls
from perfmodel.features.steps.sketch import StepSketch, step_sketch
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.graph.ir import AttrValue, Graph, Node, Tensor
from perfmodel.importers.published import PublishedKernel
from perfmodel.types import Mode, Phase, Precision, Role

#: Records of one operator on one device that are learned from.
RECORDS_PER_OPERATOR = 50
SOURCE = "operators"
_DTYPES: Mapping[str, tuple[str, Precision]] = MappingProxyType(
    {
        "fp32": ("float32", Precision.FP32),
        "tf32": ("float32", Precision.TF32),
        "fp16": ("float16", Precision.FP16),
        "bf16": ("bfloat16", Precision.BF16),
    }
)
_Shape = tuple[int, ...]
_Extents = Callable[[str], int]
#: Operator, shapes of what it reads, how many of those are parameters, result, attributes.
_Call = tuple[str, list[_Shape], int, _Shape, dict[str, AttrValue]]


@dataclass(frozen=True, kw_only=True)
class MeasuredCalls(Columns):
    """Kernel calls with their times.

    Parameters
    ----------
    time_s : ndarray, shape (calls,)
    """

    calls: KernelCalls
    time_s: FloatArray

    def __len__(self) -> int:
        return len(self.calls)


def measured_calls(kernels: Sequence[PublishedKernel]) -> MeasuredCalls:
    """Return records as columns.

    Raises
    ------
    TrainingError
        No records.
    """
    if not kernels:
        raise TrainingError("There are no kernel records; import tables of kernels first.")
    catalog = Catalog.default()
    specs = {name: catalog.get(name) for name in {k.accelerator for k in kernels}}
    calls = kernel_calls(
        op=[k.op for k in kernels],
        dtype=[k.dtype for k in kernels],
        accelerator=[specs[k.accelerator] for k in kernels],
        shape=[k.shape for k in kernels],
        kernel=[k.kernel for k in kernels],
    )
    return MeasuredCalls(calls=calls, time_s=np.array([k.time_s for k in kernels]))


def same_shapes(calls: KernelCalls, limit: int, seed: int = 0) -> IntArray:
    """Return positions of at most ``limit`` calls of each operator and device.

    Calls are chosen by their extents, so that the same shapes remain on every device.

    Returns
    -------
    ndarray of int
        Sorted.
    """
    rank = shape_hash(calls, seed)
    kind = np.unique(np.char.add(calls.op, calls.device_names), return_inverse=True)[1]
    order = np.lexsort((rank, kind))
    place = np.arange(len(order)) - np.searchsorted(kind[order], kind[order])
    return np.sort(order[place < limit]).astype(np.int64)


def shape_hash(calls: KernelCalls, seed: int) -> np.ndarray:
    """Mix the extents of each call into 64 bits (Fibonacci hashing and shifts)."""
    mixed = np.full(len(calls), seed, dtype=np.uint64)
    step = np.uint64(0x9E3779B97F4A7C15)
    for name in sorted(calls.shape):
        bits = np.nan_to_num(calls.shape[name], nan=-1.0).view(np.uint64)
        mixed = (mixed ^ (bits * step)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def operator_steps(
    kernels: Sequence[PublishedKernel],
    *,
    limit: int = RECORDS_PER_OPERATOR,
) -> tuple[StepSample, ...]:
    """Return measured kernels as steps of one operator alone.

    Parameters
    ----------
    kernels : sequence of PublishedKernel
        Those that no graph stands for are left out: other types, caches, experts.
    limit : int
        Most records of an operator on a device; the same shapes on every device.

    Returns
    -------
    tuple of StepSample
        Their ``family`` is that of the operator, ``"operator/gemm"``.
    """
    usable = [k for k in kernels if k.dtype in _DTYPES and _call(k) is not None]
    if not usable:
        return ()
    catalog = Catalog.default()
    chosen = [usable[i] for i in same_shapes(measured_calls(usable).calls, limit)]
    sketches: dict[tuple[str, str, tuple[tuple[str, float], ...]], StepSketch] = {}
    found = []
    for kernel in chosen:
        key = (kernel.op, kernel.dtype, tuple(sorted(kernel.shape.items())))
        if key not in sketches:
            sketches[key] = step_sketch(operator_graph(kernel))
        found.append(_sample(kernel, sketches[key], catalog))
    return tuple(found)


def operator_graph(kernel: PublishedKernel) -> Graph:
    """Return the graph of one measured kernel.

    Raises
    ------
    ValueError
        An operator or a shape that no graph of one node stands for.
    """
    call = _call(kernel)
    if call is None:
        raise ValueError(f"No graph stands for {kernel.op!r} of {dict(kernel.shape)}.")
    op, read, parameters, result, attrs = call
    roles = [Role.INPUT] * (len(read) - parameters) + [Role.PARAMETER] * parameters
    tensors = tuple(
        Tensor(shape=shape, dtype=_DTYPES[kernel.dtype][0], role=role, storage=i)
        for i, (shape, role) in enumerate(
            zip([*read, result], [*roles, Role.ACTIVATION], strict=True)
        )
    )
    node = Node(
        op=op,
        phase=Phase.FORWARD,
        inputs=tuple(range(len(read))),
        outputs=(len(read),),
        attrs=MappingProxyType(attrs),
    )
    return Graph(nodes=(node,), tensors=tensors)


def _call(kernel: PublishedKernel) -> _Call | None:
    shape = kernel.shape
    is_plain = not shape.get("context") and shape.get("heads") == shape.get("kv_heads")
    if kernel.op == "attention_prefill" and not is_plain:
        return None
    make = _CALLS.get(kernel.op)
    return None if make is None else make(lambda name: int(shape[name]))


def _gemm(of: _Extents) -> _Call:
    return "mm", [(of("m"), of("k")), (of("k"), of("n"))], 1, (of("m"), of("n")), {}


def _bmm(of: _Extents) -> _Call:
    batch, m, n, k = of("batch"), of("m"), of("n"), of("k")
    return "bmm", [(batch, m, k), (batch, k, n)], 0, (batch, m, n), {}


def _conv2d(of: _Extents) -> _Call:
    kernel, stride, height, width = of("kernel"), of("stride"), of("height_out"), of("width_out")
    read: list[_Shape] = [
        (of("batch"), of("c_in"), height * stride, width * stride),
        (of("c_out"), of("c_in"), kernel, kernel),
    ]
    attrs: dict[str, AttrValue] = {
        "stride": (stride, stride), "padding": (kernel // 2, kernel // 2), "dilation": (1, 1),
        "groups": 1, "transposed": False,
    }  # fmt: skip
    return "convolution", read, 1, (of("batch"), of("c_out"), height, width), attrs


def _attention(of: _Extents) -> _Call:
    shape = of("batch"), of("heads"), of("tokens"), of("head_dim")
    read: list[_Shape] = [shape, shape, shape]
    return "scaled_dot_product_attention", read, 0, shape, {"is_causal": True}


def _softmax(of: _Extents) -> _Call:
    shape = (of("rows"), of("width"))
    return "_softmax", [shape], 0, shape, {"dim": -1}


def _layer_norm(of: _Extents) -> _Call:
    width = (of("width"),)
    shape = (of("rows"), *width)
    return "native_layer_norm", [shape, width, width], 2, shape, {"normalized_shape": width}


def _pointwise(op: str, inputs: int = 1) -> Callable[[_Extents], _Call]:
    def call(of: _Extents) -> _Call:
        shape = (of("rows"), of("width"))
        return op, [shape] * inputs, 0, shape, {}

    return call


_CALLS: Mapping[str, Callable[[_Extents], _Call]] = MappingProxyType(
    {
        "gemm": _gemm,
        "bmm": _bmm,
        "conv2d": _conv2d,
        "attention_prefill": _attention,
        "softmax": _softmax,
        "layer_norm": _layer_norm,
        **{op: _pointwise(op, 2) for op in ("add", "mul", "div")},
        **{op: _pointwise(op) for op in ("pow", "relu", "gelu", "tanh")},
    }
)


def _sample(kernel: PublishedKernel, sketch: StepSketch, catalog: Catalog) -> StepSample:
    step = Step(
        sketch=sketch,
        accelerator=catalog.get(kernel.accelerator),
        mode=Mode.INFERENCE,
        batch_size=max(1, int(kernel.shape.get("batch", 1))),
        precision=_DTYPES[kernel.dtype][1],
        alone=True,
    )
    return StepSample(
        step=step,
        step_time_s=kernel.time_s,
        model=kernel.op,
        family=f"operator/{kernel.op}",
        source=SOURCE,
    )

"""Shapes that decide how well an operator runs: GEMM extents, convolution geometry, axes.

Every function reads one node and its tensors and returns plain numbers; nothing here knows a
device. Extents are returned as they are; :mod:`perfmodel.features.nodes` takes the logarithms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from perfmodel.graph.cost.recurrent import GATES
from perfmodel.graph.ir import AttrValue, Node, Tensor


class GemmShape(NamedTuple):
    """Extents of a (batched) matrix product ``[batch, m, k] x [batch, k, n]``; 0 where none."""

    batch: float = 0.0
    m: float = 0.0
    n: float = 0.0
    k: float = 0.0


class ConvolutionShape(NamedTuple):
    """Geometry of a convolution; all 0 for other operators.

    ``kernel_area`` is the number of taps, ``spatial_in``/``spatial_out`` the number of
    positions per sample and channel, ``width_out`` the last extent of the result,
    ``gradients`` how many results a backward call has.
    """

    groups: float = 0.0
    channels_in: float = 0.0
    channels_out: float = 0.0
    kernel_area: float = 0.0
    stride: float = 0.0
    dilation: float = 0.0
    spatial_in: float = 0.0
    spatial_out: float = 0.0
    width_out: float = 0.0
    gradients: float = 0.0
    transposed: float = 0.0


class Recursion(NamedTuple):
    """What a recurrent layer does one after the other; 0 for other operators.

    ``steps`` is the length of the longest chain of steps that wait for each other,
    ``reread_bytes`` what all steps but the first read of the weights again.
    """

    steps: float = 0.0
    reread_bytes: float = 0.0


NO_GEMM = GemmShape()
NO_CONVOLUTION = ConvolutionShape()
NO_RECURSION = Recursion()


def gemm_shape(outputs: tuple[Tensor, ...], flops: float) -> GemmShape:
    """Return the extents of a matrix product from its result and its work.

    A product of ``[m, k]`` and ``[k, n]`` takes ``2 m n k`` FLOPs, so ``k = F / (2 |out|)``;
    that holds for every spelling of a product without a case for each.

    Parameters
    ----------
    outputs : tuple of Tensor
        Results of the node; the first one counts.

    Examples
    --------
    2 x 3 x 4 products of length 5, multiply and add: 2 * 24 * 5 = 240 FLOPs.

    >>> from perfmodel.types import Role
    >>> out = Tensor(shape=(2, 3, 4), dtype="float32", role=Role.ACTIVATION, storage=0)
    >>> gemm_shape((out,), 240.0)
    GemmShape(batch=2.0, m=3.0, n=4.0, k=5.0)
    """
    if not outputs or flops <= 0 or not outputs[0].element_count:
        return NO_GEMM
    shape = outputs[0].shape
    n = shape[-1] if shape else 1
    m = shape[-2] if len(shape) > 1 else 1
    return GemmShape(
        batch=float(math.prod(shape[:-2])),
        m=float(m),
        n=float(n),
        k=flops / (2.0 * outputs[0].element_count),
    )


def convolution_shape(
    node: Node, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]
) -> ConvolutionShape:
    """Return the geometry of a convolution or of its backward call.

    Parameters
    ----------
    node : Node
        ``convolution(input, weight, ...)`` or ``convolution_backward(grad, input, weight, ...)``.

    Returns
    -------
    ConvolutionShape
        All zero when the operands are not those of a convolution.
    """
    backward = node.op.rstrip("_").endswith("backward")
    wanted = 3 if backward else 2
    if len(inputs) < wanted or not outputs:
        return NO_CONVOLUTION
    source, weight = (inputs[1], inputs[2]) if backward else (inputs[0], inputs[1])
    result = inputs[0] if backward else outputs[0]
    if len(weight.shape) < 3 or len(source.shape) < 3 or len(result.shape) < 3:
        return NO_CONVOLUTION
    groups = max(1, _whole(node.attrs.get("groups"), 1))
    transposed = bool(node.attrs.get("transposed"))
    first, second = weight.shape[0], weight.shape[1]
    return ConvolutionShape(
        groups=float(groups),
        channels_in=first / groups if transposed else float(second),
        channels_out=float(second) if transposed else first / groups,
        kernel_area=float(math.prod(weight.shape[2:])),
        stride=float(_whole(node.attrs.get("stride"), 1)),
        dilation=float(_whole(node.attrs.get("dilation"), 1)),
        spatial_in=float(math.prod(source.shape[2:])),
        spatial_out=float(math.prod(result.shape[2:])),
        width_out=float(result.shape[-1]),
        gradients=float(len(outputs)) if backward else 0.0,
        transposed=float(transposed),
    )


def recursion(node: Node, inputs: tuple[Tensor, ...]) -> Recursion:
    """Return what a recurrent layer, or its backward call, does one after the other.

    Layers of one direction follow each other by a step; a layer of two directions, which wait for
    nobody but themselves, needs the whole of the one before.

    Parameters
    ----------
    node : Node
        ``lstm(input, weights ...)`` and the like, with the attributes of cuDNN's layers.
    """
    gates = GATES.get(node.op.removesuffix("_backward"))
    hidden = _whole(node.attrs.get("hidden_size"), 0)
    if gates is None or not hidden or len(inputs) < 2 or len(inputs[0].shape) < 2:
        return NO_RECURSION
    packed = node.attrs.get("batch_sizes")
    time_axis = 1 if node.attrs.get("batch_first") and len(inputs[0].shape) > 2 else 0
    length = len(packed) if isinstance(packed, tuple) and packed else inputs[0].shape[time_axis]
    layers = max(1, _whole(node.attrs.get("num_layers"), 1))
    is_bidirectional = bool(node.attrs.get("bidirectional"))
    width = _whole(node.attrs.get("proj_size"), 0) or hidden
    weight_bytes = gates * hidden * width * inputs[1].size_bytes / max(1, inputs[1].element_count)
    return Recursion(
        steps=float(length * layers if is_bidirectional else length + layers - 1),
        reread_bytes=max(0, length - 1) * layers * (1 + is_bidirectional) * weight_bytes,
    )


def axis_stride(node: Node, tensor: Tensor) -> float:
    """Return the stride, in elements, of the axis that an operator works along.

    1 for the last axis (contiguous), larger for outer ones; 0 when the operator names none.

    Parameters
    ----------
    node : Node
        Read for its ``dim`` (or ``dims``, ``axis``) attribute.
    tensor : Tensor
        The operand whose axis it is, taken as dense.
    """
    for key in ("dim", "dims", "axis", "axes"):
        value = node.attrs.get(key)
        axis = value[-1] if isinstance(value, tuple) and value else value
        if isinstance(axis, int) and not isinstance(axis, bool):
            rank = len(tensor.shape)
            if -rank <= axis < rank:
                return float(math.prod(tensor.shape[axis % rank + 1 :]))
    return 0.0


def _whole(value: AttrValue, default: int) -> int:
    if isinstance(value, tuple):
        return max((_whole(item, default) for item in value), default=default)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value)
    return default

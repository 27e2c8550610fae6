"""Inputs for an ONNX file, made by what it declares and by what it looks up with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.errors import MeasurementError

#: Operators that pass on which rows are meant, in another type or shape: their first input.
_PASS_ON = frozenset(
    {
        *("Cast", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose"),
        "Unsqueeze",
    }
)
#: Operators through which a stored table keeps its extents.
_KEEP_SHAPE = frozenset({"Cast", "DequantizeLinear", "Identity", "QuantizeLinear"})
#: Integers that nothing tells more of.
_UNKNOWN_ROWS = 2


def make_inputs(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, npt.NDArray[Any]]:
    """Make random inputs for a graph.

    Floating-point numbers are normal. Integers lie below the rows of the stored table that they
    look up, else they are 0 or 1. Truth values and what is called a mask are ones.

    Parameters
    ----------
    graph : onnx.GraphProto
        With its weights, or without.
    shapes : mapping of str to tuple of int
        Of what is to be made, as from :func:`~perfmodel.capture.onnx.input_shapes`.

    Raises
    ------
    MeasurementError
        An input of a type that numpy does not have.
    """
    generator = np.random.default_rng(0)
    rows = looked_up_rows(graph)
    return {
        info.name: _array(info, shapes[info.name], rows.get(info.name), generator)
        for info in graph.input
        if info.name in shapes
    }


def looked_up_rows(graph: Any) -> dict[str, int]:
    """Return how many rows the smallest stored table has that an input looks up, by input."""
    extents = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    origin = {info.name: info.name for info in graph.input if info.name not in extents}
    rows: dict[str, int] = {}
    for node in graph.node:
        _follow(node, extents, origin)
        if node.op_type != "Gather":
            continue
        table, ids = node.input
        source, shape = origin.get(ids), extents.get(table)
        if source is not None and shape:
            extent = shape[next((one.i for one in node.attribute if one.name == "axis"), 0)]
            rows[source] = min(extent, rows.get(source, extent))
    return rows


def _follow(node: Any, extents: dict[str, tuple[int, ...]], origin: dict[str, str]) -> None:
    """Note which stored table, or which input, the first output of a node passes on."""
    if node.op_type == "Constant":
        for stored in (one.t for one in node.attribute if one.name == "value"):
            extents[node.output[0]] = tuple(stored.dims)
    if not node.input:
        return
    first = node.input[0]
    if node.op_type in _KEEP_SHAPE and first in extents:
        extents[node.output[0]] = extents[first]
    if node.op_type in _PASS_ON and first in origin:
        origin[node.output[0]] = origin[first]


def _array(
    info: Any, shape: tuple[int, ...], rows: int | None, generator: np.random.Generator
) -> npt.NDArray[Any]:
    dtype = _dtype_of(info)
    if dtype.kind == "b" or "mask" in info.name.lower():
        return np.ones(shape, dtype)
    if dtype.kind == "f":
        return generator.standard_normal(shape, np.float32).astype(dtype)
    limit = min(rows or _UNKNOWN_ROWS, int(np.iinfo(dtype).max))
    return generator.integers(0, limit, shape).astype(dtype)


def _dtype_of(info: Any) -> np.dtype[Any]:
    from onnx.helper import tensor_dtype_to_np_dtype

    dtype: np.dtype[Any] = np.dtype(tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type))
    if dtype.kind not in "biuf":
        raise MeasurementError(
            f"Input {info.name!r} of the ONNX file cannot be made: of its type ({dtype}) numpy "
            "makes no numbers. Let the file take another one, and cast it inside."
        )
    return dtype

"""An ONNX file of a user, made ready to run: weights inside, dimensions bound, inputs made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.capture.onnx import input_shapes
from perfmodel.errors import MeasurementError, MissingExtraError, first_line
from perfmodel.profilers.onnx_file import OnnxFile

_VALUES = (
    "raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
    "string_data",
)  # fmt: skip


def read_stored(file: OnnxFile) -> tuple[bytes, dict[str, Any]]:
    """Read a file for engines that run it from memory.

    Weights that lie beside it are put inside, every input gets the extents that are given, and
    nodes without a name get the one that a capture gives them.

    Returns
    -------
    content : bytes
    feeds : dict of str to ndarray
        Inputs that were made for it.

    Raises
    ------
    MeasurementError
        Weights are missing, the file and its weights exceed 2 GB, or an input cannot be made.
    """
    shapes = input_shapes(file.path, dimensions=file.dimensions, batch_size=file.batch_size)
    model = _loaded(file.path)
    _check_weights(model.graph, file.path)
    feeds = make_inputs(model.graph, shapes)
    _bind(model.graph, shapes)
    for position, node in enumerate(model.graph.node):
        node.name = node.name or f"{node.op_type}_{position}"
    return _content(model, file.path), feeds


def _loaded(path: Path) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingExtraError("Profiling an ONNX file", extra="onnx") from error
    model = onnx.load(path, load_external_data=False)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise MeasurementError(
            f"The weights of {path.name} lie in another file, which cannot be read: "
            f"{first_line(error).rstrip('.')}. Put it where that says."
        ) from error
    return model


def _check_weights(graph: Any, path: Path) -> None:
    for tensor in graph.initializer:
        if math.prod(tensor.dims) and not any(len(getattr(tensor, name)) for name in _VALUES):
            raise MeasurementError(
                f"{path.name} was saved without its weights ({tensor.name!r} is empty), so that "
                "it cannot be run. Export it with them; `perfmodel predict` needs none."
            )


def _bind(graph: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    for info in graph.input:
        if info.name in shapes:
            dims = info.type.tensor_type.shape.dim
            for dim, extent in zip(dims, shapes[info.name], strict=True):
                dim.dim_value = extent


def _content(model: Any, path: Path) -> bytes:
    from google.protobuf.message import EncodeError

    try:
        return bytes(model.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise MeasurementError(
            f"{path.name} and its weights exceed 2 GB, the most that is measured of a file."
        ) from error


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

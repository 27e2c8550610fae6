"""An ONNX file of a user, made ready to run: weights inside, dimensions bound, nodes named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.capture.onnx import input_shapes
from perfmodel.errors import MeasurementError, MissingExtraError, first_line
from perfmodel.profilers.onnx_file import OnnxFile
from perfmodel.profilers.steps.made_inputs import make_inputs

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

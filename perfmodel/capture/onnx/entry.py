"""The verb: an ONNX file becomes a Graph."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from perfmodel.capture.onnx.autocast import check_precision
from perfmodel.capture.onnx.builder import GraphBuilder
from perfmodel.capture.onnx.reading.bind import Binding
from perfmodel.capture.onnx.reading.decode import decode_model
from perfmodel.capture.onnx.reading.limits import OnnxLimits
from perfmodel.capture.onnx.reading.model import OnnxModel
from perfmodel.capture.onnx.trace import Tracer
from perfmodel.capture.onnx.training import check_optimizer, extend_to_training
from perfmodel.capture.onnx.unknown import ShapeOracle
from perfmodel.errors import InvalidInputError, UnsupportedOnnxError
from perfmodel.graph.ir import Graph
from perfmodel.types import Mode, Precision, Role

_DEFAULT_LIMITS = OnnxLimits()


def capture_onnx(
    model: str | os.PathLike[str] | bytes,
    *,
    dimensions: Mapping[str, int] | None = None,
    batch_size: int | None = None,
    mode: Mode = Mode.INFERENCE,
    optimizer: str = "sgd",
    precision: Precision | None = None,
    limits: OnnxLimits = _DEFAULT_LIMITS,
) -> Graph:
    """Turn an ONNX file into a Graph without running it.

    The file may come from anybody: it is read under bounds, its weights are never loaded,
    data outside the file is never followed and no operator of it is executed.

    Parameters
    ----------
    model : path or bytes
        An ``.onnx`` file, with or without its weights; those in another file (external data) are
        read by their shapes.
    dimensions : mapping of str to int, optional
        Extents of dynamic dimensions by symbol (``{"batch": 8, "seq": 128}``); one without a
        symbol is called ``"<input>[<axis>]"``.
    batch_size : int, optional
        Extent of the first dimension of every input that leaves it open.
    mode : Mode
        In training, a loss (the mean over all float outputs), the backward pass and the
        optimizer's updates are added, and normalisation uses batch statistics.
    optimizer : str
        ``"sgd"``, ``"momentum"``, ``"adam"`` or ``"adamw"``; training only.
    precision : Precision, optional
        Re-types floats: fp16 and bf16 hold everything in that type, ``amp_*`` casts as
        ``torch.autocast`` does. None leaves the file's types.
    limits : OnnxLimits
        Past any of them the file is refused.

    Returns
    -------
    Graph
        Nodes bear the names of the ONNX nodes they come from, see
        :func:`~perfmodel.capture.onnx.onnx_node_name`; operators without translation are
        named ``onnx::<operator>`` and are unpriced.

    Raises
    ------
    UnsupportedOnnxError
        The file is damaged, cyclic or beyond the limits; a dynamic dimension is unbound; shapes
        depend on data, such as values that are kept in another file; in training, an operator
        without backward rule.
    MissingExtraError
        An operator is unknown here, the file does not say its result's shape, and onnx, which
        might, is not installed.
    """
    check_precision(precision)
    if mode is Mode.TRAINING:
        check_optimizer(optimizer)
    with _window(model) as data:
        parsed = decode_model(data, limits)
    binding = Binding(parsed.graph, dimensions or {}, batch_size)
    builder = GraphBuilder(limits, precision)
    with ShapeOracle() as oracle:
        outputs = Tracer(parsed, binding, builder, mode, oracle).run()
    if mode is Mode.TRAINING:
        extend_to_training(builder, outputs, optimizer)
    return builder.build(_source(parsed, model))


def input_shapes(
    model: str | os.PathLike[str] | bytes,
    *,
    dimensions: Mapping[str, int] | None = None,
    batch_size: int | None = None,
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs of an ONNX file, with the extents that are given.

    Parameters are those of :func:`capture_onnx`; what has a value in the file is no input.

    Returns
    -------
    dict of str to tuple of int
        In the order of the file, without inputs that are declared without a shape.

    Raises
    ------
    UnsupportedOnnxError
        The file is damaged or beyond the limits, or a dynamic dimension is unbound.
    """
    with _window(model) as data:
        graph = decode_model(data, _DEFAULT_LIMITS).graph
    binding = Binding(graph, dimensions or {}, batch_size)
    shapes = {info.name: binding.shape(info) for info in graph.inputs}
    return {name: shape for name, shape in shapes.items() if shape is not None}


def samples_of(graph: Graph, stated: int | None) -> int:
    """Return the samples of a captured file: as stated, else the first extent of its first input.

    Raises
    ------
    InvalidInputError
        The dimensions leave no input with as many samples as were stated.
    """
    inputs = [one.shape for one in graph.tensors if one.role is Role.INPUT and one.shape]
    if stated is None:
        return inputs[0][0] if inputs else 1
    if inputs and not any(stated in shape for shape in inputs):
        held = "x".join(map(str, inputs[0]))
        raise InvalidInputError(
            f"The batch size is {stated}, but no input has that extent: the dimensions make the "
            f"first one {held}. Leave the batch size or the dimension out.",
            pointer="/job/batch_size",
        )
    return stated


@contextmanager
def _window(model: str | os.PathLike[str] | bytes) -> Iterator[memoryview]:
    if isinstance(model, bytes | bytearray | memoryview):
        yield memoryview(model).cast("B") if len(model) else memoryview(b"")
        return
    path = Path(model)
    try:
        with path.open("rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            mapped = None if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise UnsupportedOnnxError(
            f"The ONNX file {str(path)!r} cannot be read: {error.strerror}. Check the path."
        ) from error
    if mapped is None:
        yield memoryview(b"")
        return
    try:
        yield memoryview(mapped)
    finally:
        # An error on its way holds windows into the file; it is unmapped when they are gone.
        with suppress(BufferError):
            mapped.close()


def _source(parsed: OnnxModel, model: str | os.PathLike[str] | bytes) -> dict[str, str]:
    source = {"format": "onnx", "producer": parsed.producer}
    source["opset"] = ", ".join(f"{d or 'ai.onnx'} {v}" for d, v in sorted(parsed.opsets.items()))
    if not isinstance(model, bytes | bytearray | memoryview):
        source["model"] = Path(model).name
    return source

"""ONNX files for tests, made by hand or exported from small modules."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper


def tensor_info(name: str, shape: Sequence[int | str | None] | None, kind: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    count = 1
    for extent in shape:
        count *= extent
    return helper.make_tensor(name, TensorProto.FLOAT, shape, [0.5] * count)


def numbers(name: str, values: Sequence[int]) -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], list(values))


def onnx_file(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    *,
    functions: Sequence[onnx.FunctionProto] = (),
    value_info: Sequence[onnx.ValueInfoProto] = (),
    opset: int = 17,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "graph", inputs, outputs, initializer=initializers, value_info=value_info
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=functions)


def one_node(
    op: str,
    shapes: Sequence[Sequence[int]],
    initializers: Sequence[onnx.TensorProto] = (),
    *,
    outputs: int = 1,
    kind: int = TensorProto.FLOAT,
    result: int = TensorProto.FLOAT,
    opset: int = 17,
    domain: str = "",
    **attrs: Any,
) -> bytes:
    """A file of one node named ``node`` that reads ``x0``, ``x1``, ... and the initializers."""
    names = [f"x{p}" for p in range(len(shapes))]
    results = [f"y{p}" for p in range(outputs)]
    node = helper.make_node(
        op, [*names, *(t.name for t in initializers)], results, name="node", domain=domain, **attrs
    )
    inputs = [tensor_info(n, s, kind) for n, s in zip(names, shapes, strict=True)]
    model = onnx_file(
        [node],
        inputs,
        [tensor_info(results[0], None, result)],
        initializers,
        opset=opset,
        domains=[domain] if domain else [],
    )
    return model.SerializeToString()


def exported(
    module: torch.nn.Module, args: tuple[Any, ...], *, training: bool = False, **options: Any
) -> bytes:
    """Export a module with PyTorch's TorchScript exporter, which needs nothing else."""
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            args,
            buffer,
            dynamo=False,
            training=mode,
            opset_version=17,
            do_constant_folding=not training,
            **options,
        )
    return buffer.getvalue()

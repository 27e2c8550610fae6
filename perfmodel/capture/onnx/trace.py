"""Follow an ONNX graph with shapes instead of data, and write down what it would run.

Nothing is executed: a rule per operator states the result's shape and the ATen operators that
do the same work. Integers on which shapes depend are computed along the way (``fold``).
Functions, constant branches and loops of known length are followed in place.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import partial

from perfmodel.capture.onnx import rules
from perfmodel.capture.onnx.builder import GraphBuilder, Value
from perfmodel.capture.onnx.call import RULES, Call, resolve_attrs
from perfmodel.capture.onnx.dtypes import is_float
from perfmodel.capture.onnx.flow import FLOW
from perfmodel.capture.onnx.fold import fold
from perfmodel.capture.onnx.reading.bind import Binding
from perfmodel.capture.onnx.reading.model import (
    OnnxFunction,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    OnnxTensor,
    OnnxValueInfo,
)
from perfmodel.capture.onnx.unknown import ShapeOracle, unknown_operator
from perfmodel.errors import UnsupportedOnnxError
from perfmodel.types import Mode, Role

assert rules is not None  # imported for the rules that its modules enter

Scope = MutableMapping[str, Value]


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Where in the file the walk stands.

    Parameters
    ----------
    opsets : mapping of str to int
        Operator-set versions in force.
    arguments : mapping of str to object
        Attribute values passed to the function that is being followed.
    declared : mapping of str to OnnxValueInfo
        Types that the file states.
    depth : int
        Nesting of functions and subgraphs.
    """

    scope: Scope
    opsets: Mapping[str, int]
    prefix: str
    arguments: dict[str, object]
    declared: Mapping[str, OnnxValueInfo]
    depth: int


class Tracer:
    """Walks one model.

    Parameters
    ----------
    mode : Mode
        In training, dropout and batch statistics take part.
    oracle : ShapeOracle
        Shapes of operators for which there is no rule.
    """

    def __init__(
        self,
        model: OnnxModel,
        binding: Binding,
        builder: GraphBuilder,
        mode: Mode,
        oracle: ShapeOracle,
    ) -> None:
        self.model = model
        self.binding = binding
        self.builder = builder
        self.mode = mode
        self.oracle = oracle
        self._calls = 0
        self._edges = 0

    def run(self) -> list[Value]:
        """Follow the main graph and return its outputs."""
        graph = self.model.graph
        scope: Scope = {}
        for info in graph.inputs:
            scope[info.name] = self._input(info)
        declared = dict(graph.value_info)
        declared.update((v.name, v) for v in graph.outputs if v.dims is not None)
        frame = Frame(
            scope=scope, opsets=self.model.opsets, prefix="", arguments={}, declared=declared,
            depth=0,
        )  # fmt: skip
        return self.graph(graph, frame)

    def graph(self, graph: OnnxGraph, frame: Frame) -> list[Value]:
        """Follow a graph or subgraph in a frame and return its outputs."""
        self._spend(len(graph.initializers) + len(graph.outputs), graph.name)
        for name, tensor in graph.initializers.items():
            frame.scope[name] = stored_value(tensor)
        for node in graph.nodes:
            self.node(node, frame)
        return [
            self.lookup(v.name, frame, f"an output of graph {graph.name!r}") for v in graph.outputs
        ]

    def _subgraph(
        self, frame: Frame, graph: OnnxGraph, arguments: list[Value], prefix: str
    ) -> list[Value]:
        """Follow the body of a control-flow operator."""
        self._check_depth(frame.depth + 1, prefix)
        inner = replace(
            frame, scope=ChainMap({}, frame.scope), prefix=f"{prefix}/", depth=frame.depth + 1
        )
        for info, value in zip(graph.inputs, arguments, strict=True):
            inner.scope[info.name] = value
        return self.graph(graph, inner)

    def node(self, node: OnnxNode, frame: Frame) -> None:
        """Follow one operator call."""
        self._spend(_edges(node), node.name)
        if len(frame.prefix) + len(node.name) > self.builder.limits.max_text_bytes:
            raise UnsupportedOnnxError(
                f"The name of the ONNX node {node.name[:80]!r}, with those of the functions "
                f"around it, is longer than {self.builder.limits.max_text_bytes:,} characters."
            )
        inputs = tuple(
            self.lookup(n, frame, f"node {node.name!r} ({node.op})") if n else None
            for n in node.inputs
        )
        attrs = resolve_attrs(node, frame.arguments)
        function = self.model.functions.get((node.domain, node.op, node.overload))
        if function is not None:
            results = self._inline(function, node, inputs, attrs, frame)
        else:
            results = self._translate(self._call(node, inputs, attrs, frame), frame)
        for name, value in zip(node.outputs, results, strict=False):
            if name and value is not None:
                frame.scope[name] = value

    def lookup(self, name: str, frame: Frame, reader: str) -> Value:
        """Return the value of a name."""
        try:
            return frame.scope[name]
        except KeyError:
            raise UnsupportedOnnxError(
                f"Tensor {name!r} is read by {reader} of the ONNX file, but nothing produces it. "
                "Check the file with onnx.checker.check_model."
            ) from None

    def _call(
        self,
        node: OnnxNode,
        inputs: tuple[Value | None, ...],
        attrs: dict[str, object],
        frame: Frame,
    ) -> Call:
        if node.domain not in frame.opsets:
            known = ", ".join(repr(d or "ai.onnx") for d in frame.opsets)
            raise UnsupportedOnnxError(
                f"ONNX node {node.name!r} ({node.op}) is of the domain "
                f"{node.domain or 'ai.onnx'!r}, which the file does not import (it imports "
                f"{known}) and for which it has no function. Check it with onnx.checker."
            )
        return Call(
            node=node,
            name=frame.prefix + node.name,
            inputs=inputs,
            attrs=attrs,
            opset=frame.opsets[node.domain],
            mode=self.mode,
            builder=self.builder,
        )

    def _translate(self, call: Call, frame: Frame) -> list[Value | None]:
        try:
            return self._applied(call, frame)
        except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise call.error(
                f"has arguments that do not fit: shapes "
                f"{[list(v.shape) for v in call.inputs if v is not None][:8]} ({error})"
            ) from error

    def _applied(self, call: Call, frame: Frame) -> list[Value | None]:
        key = call.node.domain, call.node.op
        flow = FLOW.get(key)
        if flow is not None:
            return list(flow(call, partial(self._subgraph, frame)))
        folded = fold(call)
        if folded is not None:
            return list(folded)
        rule = RULES.get(key)
        if rule is None:
            return unknown_operator(call, frame.declared, self.binding, self.oracle)
        result = rule(call)
        return [result] if isinstance(result, Value) else list(result)

    def _inline(
        self,
        function: OnnxFunction,
        node: OnnxNode,
        inputs: tuple[Value | None, ...],
        attrs: dict[str, object],
        frame: Frame,
    ) -> list[Value | None]:
        prefix = frame.prefix + node.name
        self._spend(len(function.inputs) + len(function.outputs), prefix)
        self._check_depth(frame.depth + 1, prefix)
        scope = {n: v for n, v in zip(function.inputs, inputs, strict=False) if v is not None}
        inner = Frame(
            scope=scope,
            opsets=function.opsets or frame.opsets,
            prefix=f"{prefix}/",
            arguments={**function.defaults, **attrs},
            declared={},
            depth=frame.depth + 1,
        )
        for body_node in function.nodes:
            if any(n and n not in inner.scope for n in body_node.inputs):
                body_node = _without_absent(body_node, inner.scope, function)
            self.node(body_node, inner)
        return [inner.scope.get(name) for name in function.outputs]

    def _input(self, info: OnnxValueInfo) -> Value:
        shape = self.binding.shape(info)
        if not info.is_tensor or info.dtype is None or shape is None:
            raise UnsupportedOnnxError(
                f"Input {info.name!r} of the ONNX file is no tensor of known type and rank. "
                "Declare its element type and its dimensions (dynamic ones by a name)."
            )
        return self.builder.source(shape, info.dtype, Role.INPUT)

    def _spend(self, edges: int, name: str) -> None:
        self._calls += 1
        self._edges += edges
        limits = self.builder.limits
        if self._calls > limits.max_nodes or self._edges > limits.max_edges:
            raise UnsupportedOnnxError(
                f"The ONNX file runs more than {limits.max_nodes:,} operators with "
                f"{limits.max_edges:,} edges once functions and loops are unrolled (at "
                f"{name[:80]!r}). Shorten the loops, or raise OnnxLimits.max_nodes and max_edges."
            )

    def _check_depth(self, depth: int, name: str) -> None:
        if depth > self.builder.limits.max_nesting:
            raise UnsupportedOnnxError(
                f"The ONNX file nests functions and subgraphs more than "
                f"{self.builder.limits.max_nesting} deep at {name[:80]!r}; a function may not "
                "call itself."
            )


def stored_value(tensor: OnnxTensor) -> Value:
    """Return the value of a tensor stored in the file.

    Floats of at least one dimension are taken for parameters (an ONNX file does not tell
    parameters and buffers apart), so are 8-bit and narrower integers, which are quantised
    weights; the rest are constants.
    """
    weight = is_float(tensor.dtype) or tensor.dtype.startswith(
        ("int4", "uint4", "int8", "uint8", "float8")
    )
    role = Role.PARAMETER if weight and tensor.shape else Role.CONSTANT
    return Value(tensor.shape, tensor.dtype, known=tensor.values, role=role)


def _edges(node: OnnxNode) -> int:
    items = sum(len(v) for v in node.attrs.values() if isinstance(v, tuple))
    return len(node.inputs) + len(node.outputs) + items


def _without_absent(node: OnnxNode, scope: Scope, function: OnnxFunction) -> OnnxNode:
    """Blank the inputs that stand for optional function inputs which the call left out."""
    absent = {n for n in function.inputs if n not in scope}
    return replace(node, inputs=tuple("" if n in absent else n for n in node.inputs))

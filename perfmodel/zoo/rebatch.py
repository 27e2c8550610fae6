r"""One capture for every batch size.

A step at batch size B is the same program with other extents, and nearly every extent and
integer attribute is affine in B: :math:`v(B) = v_0 + v_1 B` (a batch of images has B in its
first extent, tokens of a flattened batch S B). Three captures decide it: two give the line, the
third checks it. Where the line fails, or the structure differs, there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from perfmodel.graph.ir import AttrValue, Graph, Node, Tensor


class NotAffineError(Exception):
    """The captures do not lie on one line; never leaves this module."""


@dataclass(frozen=True, slots=True)
class Line:
    """A number that is affine in the batch size."""

    base: int
    slope: int

    def at(self, batch_size: int) -> int:
        """Return base + slope * batch_size."""
        return self.base + self.slope * batch_size


#: A value of which some parts vary: scalars stay, a Line is evaluated, tuples are walked.
Template: TypeAlias = "AttrValue | Line | FloatLine | tuple[Template, ...]"


@dataclass(frozen=True, slots=True)
class FloatLine:
    """A line whose values the graph holds as floats, such as the divisor of a mean."""

    line: Line

    def at(self, batch_size: int) -> float:
        """Return the value as a float."""
        return float(self.line.at(batch_size))


@dataclass(frozen=True, kw_only=True)
class Stencil:
    """A graph with lines in the place of the numbers that depend on the batch size.

    Parameters
    ----------
    graph : Graph
        One of the captures; what does not vary is taken from it.
    shapes : mapping of int to tuple
        Templates of the shapes that vary, by position of the tensor.
    attrs : mapping of int to mapping
        Templates of the attributes that vary, by position of the node.
    """

    graph: Graph
    shapes: Mapping[int, tuple[int | Line, ...]]
    attrs: Mapping[int, Mapping[str, Template]]

    def at(self, batch_size: int) -> Graph:
        """Evaluate every line."""
        tensors = list(self.graph.tensors)
        for position, shape in self.shapes.items():
            old = tensors[position]
            tensors[position] = Tensor(
                shape=tuple(e.at(batch_size) if isinstance(e, Line) else e for e in shape),
                dtype=old.dtype,
                role=old.role,
                storage=old.storage,
            )
        nodes = list(self.graph.nodes)
        for position, attrs in self.attrs.items():
            node = nodes[position]
            varying = {key: _evaluate(value, batch_size) for key, value in attrs.items()}
            nodes[position] = Node(
                op=node.op,
                phase=node.phase,
                inputs=node.inputs,
                outputs=node.outputs,
                attrs=MappingProxyType({**node.attrs, **varying}),
                name=node.name,
            )
        return Graph(nodes=tuple(nodes), tensors=tuple(tensors), source=self.graph.source)


def stencil_through(captured: Mapping[int, Graph]) -> Stencil | None:
    """Return the lines through some captures; None where there are none.

    Parameters
    ----------
    captured : mapping of int to Graph
        At least three graphs of one job by their batch sizes, none of which is 1.
    """
    sizes = sorted(captured)
    try:
        return fit_stencil([captured[size] for size in sizes], sizes)
    except NotAffineError:
        return None


def fit_stencil(graphs: Sequence[Graph], batch_sizes: Sequence[int]) -> Stencil:
    """Find the lines through the numbers of several captures of one job.

    Parameters
    ----------
    graphs : sequence of Graph
        At least three, of equal structure.
    batch_sizes : sequence of int
        Where they were captured, all different.

    Raises
    ------
    NotAffineError
        The structures differ, or a number does not lie on a line.
    """
    _check_structure(graphs)
    shapes: dict[int, tuple[int | Line, ...]] = {}
    for position, tensors in enumerate(zip(*(g.tensors for g in graphs), strict=True)):
        found = [t.shape for t in tensors]
        if any(shape != found[0] for shape in found):
            shapes[position] = tuple(
                _fit_extent(extents, batch_sizes) for extents in zip(*found, strict=True)
            )
    attrs: dict[int, dict[str, Template]] = {}
    for position, nodes in enumerate(zip(*(g.nodes for g in graphs), strict=True)):
        if any(node.attrs != nodes[0].attrs for node in nodes):
            attrs[position] = {
                key: _fit([node.attrs[key] for node in nodes], batch_sizes)
                for key in nodes[0].attrs
                if any(node.attrs[key] != nodes[0].attrs[key] for node in nodes)
            }
    return Stencil(graph=graphs[0], shapes=shapes, attrs=attrs)


def _check_structure(graphs: Sequence[Graph]) -> None:
    first = graphs[0]
    for other in graphs[1:]:
        if len(other.nodes) != len(first.nodes) or len(other.tensors) != len(first.tensors):
            raise NotAffineError
        if any(_kind(a) != _kind(b) for a, b in zip(first.tensors, other.tensors, strict=True)):
            raise NotAffineError
        if any(_place(a) != _place(b) for a, b in zip(first.nodes, other.nodes, strict=True)):
            raise NotAffineError


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return (len(tensor.shape), tensor.dtype, tensor.role, tensor.storage)


def _place(node: Node) -> tuple[object, ...]:
    return (node.op, node.phase, node.inputs, node.outputs, node.attrs.keys())


def _fit_extent(values: Sequence[int], batch_sizes: Sequence[int]) -> int | Line:
    line = _fit_line(values, batch_sizes)
    if isinstance(line, Line) and line.slope < 0:
        raise NotAffineError  # an extent that shrinks cannot go on for ever
    return line


def _fit(values: Sequence[AttrValue], batch_sizes: Sequence[int]) -> Template:
    if all(value == values[0] and type(value) is type(values[0]) for value in values):
        return values[0]
    if all(isinstance(value, tuple) for value in values):
        rows = [value for value in values if isinstance(value, tuple)]
        if len({len(row) for row in rows}) != 1:
            raise NotAffineError
        return tuple(_fit(column, batch_sizes) for column in zip(*rows, strict=True))
    whole = [v for v in values if type(v) is int]
    if len(whole) == len(values):
        return _fit_line(whole, batch_sizes)
    floats = [int(v) for v in values if isinstance(v, float) and v.is_integer()]
    if len(floats) == len(values):
        line = _fit_line(floats, batch_sizes)
        return FloatLine(line) if isinstance(line, Line) else float(line)
    raise NotAffineError


def _fit_line(values: Sequence[int], batch_sizes: Sequence[int]) -> int | Line:
    rise, run = values[1] - values[0], batch_sizes[1] - batch_sizes[0]
    if rise % run:
        raise NotAffineError
    line = Line(values[0] - rise // run * batch_sizes[0], rise // run)
    if any(line.at(b) != value for value, b in zip(values, batch_sizes, strict=True)):
        raise NotAffineError
    return line if line.slope else values[0]


def _evaluate(template: Template, batch_size: int) -> AttrValue:
    if isinstance(template, (Line, FloatLine)):
        return template.at(batch_size)
    if isinstance(template, tuple):
        return tuple(_evaluate(part, batch_size) for part in template)
    return template

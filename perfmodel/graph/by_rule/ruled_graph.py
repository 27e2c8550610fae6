"""A graph with rules in the place of the numbers that depend on its batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perfmodel.graph.by_rule.rules import Degrees, Point, Template, evaluated, terms
from perfmodel.graph.ir import Graph, make_node, make_tensor
from perfmodel.graph.node import AttrValue
from perfmodel.types import Phase, Role


class TensorKind(NamedTuple):
    """What tensors of a kind have in common; extents are whole numbers or rules."""

    shape: Template
    dtype: str
    role: Role


class CallKind(NamedTuple):
    """What calls of a kind have in common: an operator and its arguments."""

    op: str
    phase: Phase
    attrs: Mapping[str, Template]


@dataclass(frozen=True, kw_only=True, eq=False)
class RuledGraph:
    """The graphs of one program, whatever its batch.

    Parameters
    ----------
    degrees : tuple of int
        Of the variables: batch size, sequence length, both or none.
    tensor_kinds, call_kinds : sequence
        Each kind once.
    tensors : sequence of int
        Kind of each tensor.
    calls : sequence of int
        Kind of each node.
    inputs, outputs : sequence of tuple of int
        Tensors that each node reads and makes.
    names : sequence of str
        Where each node comes from.
    source : mapping of str to str
        As of :class:`~perfmodel.graph.ir.Graph`.
    """

    degrees: Degrees
    tensor_kinds: Sequence[TensorKind]
    call_kinds: Sequence[CallKind]
    tensors: Sequence[int]
    storages: Sequence[int]
    calls: Sequence[int]
    inputs: Sequence[tuple[int, ...]]
    outputs: Sequence[tuple[int, ...]]
    names: Sequence[str]
    source: Mapping[str, str]

    @classmethod
    def of(
        cls,
        graph: Graph,
        *,
        degrees: Degrees,
        tensor_kinds: Sequence[TensorKind],
        call_kinds: Sequence[CallKind],
        tensors: Sequence[int],
        calls: Sequence[int],
    ) -> RuledGraph:
        """Return graphs that are wired as a given one is, whatever their sizes."""
        return cls(
            degrees=degrees,
            tensor_kinds=tensor_kinds,
            call_kinds=call_kinds,
            tensors=tensors,
            storages=[tensor.storage for tensor in graph.tensors],
            calls=calls,
            inputs=[node.inputs for node in graph.nodes],
            outputs=[node.outputs for node in graph.nodes],
            names=[node.name for node in graph.nodes],
            source=graph.source,
        )

    def at(self, *point: int) -> Graph:
        """Return the graph at values of the variables."""
        products = terms(point, self.degrees)
        kinds = [(_shape(kind, products), kind.dtype, kind.role) for kind in self.tensor_kinds]
        calls = [(kind.op, kind.phase, _attrs(kind, products)) for kind in self.call_kinds]
        tensors = [
            make_tensor(*kinds[kind], storage)
            for kind, storage in zip(self.tensors, self.storages, strict=True)
        ]
        nodes = []
        rows = zip(self.calls, self.inputs, self.outputs, self.names, strict=True)
        for kind, read, made, name in rows:
            op, phase, attrs = calls[kind]
            nodes.append(make_node(op, phase, read, made, attrs, name))
        return Graph(nodes=tuple(nodes), tensors=tuple(tensors), source=dict(self.source))


def _shape(kind: TensorKind, products: Point) -> tuple[int, ...]:
    shape = evaluated(kind.shape, products)
    assert isinstance(shape, tuple)
    return tuple(extent for extent in shape if isinstance(extent, int))


def _attrs(kind: CallKind, products: Point) -> Mapping[str, AttrValue]:
    return {name: evaluated(value, products) for name, value in kind.attrs.items()}

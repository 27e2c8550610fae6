"""Give a program the rules of another one that it shares its structure with.

Another optimizer works on the same gradients, and bf16 calls what fp16 calls. Of such a program one
capture tells what is another; the rules are those that are known. Whether they are, further
captures have to tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from perfmodel.graph.by_rule.ruled_graph import CallKind, RuledGraph, TensorKind
from perfmodel.graph.by_rule.rules import Point, Template
from perfmodel.graph.ir import Graph, Node
from perfmodel.types import Phase, Role


def transferred(rules: RuledGraph, point: Point, captured: Graph) -> RuledGraph | None:
    """Return rules of a program; None where its structure is another one.

    Parameters
    ----------
    rules : RuledGraph
        Of the other program.
    point : tuple of int
        Where the program was captured.
    captured : Graph
        What that gave.
    """
    known = rules.at(*point)
    ours, theirs = _body(captured), _body(known)
    if [node.op for node in ours] != [node.op for node in theirs]:
        return None
    partners = _partners(captured, known)
    shapes: list[Template] = []
    for index, tensor in enumerate(captured.tensors):
        partner = partners.get(index)
        if partner is not None and known.tensors[partner].shape != tensor.shape:
            return None
        kind = None if partner is None else rules.tensor_kinds[rules.tensors[partner]]
        shapes.append(tensor.shape if kind is None else kind.shape)
    tensor_kinds, tensors = _numbered(
        [TensorKind(s, t.dtype, t.role) for s, t in zip(shapes, captured.tensors, strict=True)]
    )
    calls = [
        _call(node, other, None if other is None else rules.call_kinds[rules.calls[place]])
        for place, (node, other) in enumerate(zip_longest(captured.nodes, theirs))
    ]
    call_kinds, of_node = _numbered(calls)
    return RuledGraph.of(
        captured,
        degrees=rules.degrees,
        tensor_kinds=tensor_kinds,
        call_kinds=call_kinds,
        tensors=tensors,
        calls=of_node,
    )


def _body(graph: Graph) -> list[Node]:
    """Return what comes before the optimizer."""
    return [node for node in graph.nodes if node.phase is not Phase.OPTIMIZER]


def _partners(ours: Graph, theirs: Graph) -> dict[int, int]:
    """Return the tensor of the other program for each tensor that both have."""
    found = dict(zip(_given(ours), _given(theirs), strict=False))
    for node, other in zip(_body(ours), _body(theirs), strict=True):
        found.update(zip(node.outputs, other.outputs, strict=False))
    return found


def _given(graph: Graph) -> list[int]:
    """Return the tensors that a step is given, without the state of its optimizer."""
    produced = {index for node in graph.nodes for index in node.outputs}
    return [
        index
        for index, tensor in enumerate(graph.tensors)
        if index not in produced and tensor.role is not Role.OPTIMIZER_STATE
    ]


def _call(node: Node, other: Node | None, kind: CallKind | None) -> CallKind:
    """Return the kind of a call: arguments are by rule where they are those of the other one."""
    known: Mapping[str, Template] = {} if kind is None or other is None else kind.attrs
    theirs = {} if other is None else other.attrs
    attrs = {
        name: known[name] if name in known and _alike(value, theirs[name]) else value
        for name, value in node.attrs.items()
    }
    return CallKind(node.op, node.phase, attrs)


def _alike(one: Any, other: Any) -> bool:
    return one == other and repr(one) == repr(other)


def _numbered(kinds: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return each kind once, and the number of each."""
    numbers: dict[str, int] = {}
    found: list[Any] = []
    places = []
    for kind in kinds:
        number = numbers.setdefault(repr(kind), len(found))
        if number == len(found):
            found.append(kind)
        places.append(number)
    return found, places

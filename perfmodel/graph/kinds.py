"""Kinds: which tensors, and which calls, of a graph are alike.

A deep network calls the same operators on the same shapes over and over. What depends on nothing
else (a price, a description) is worked out once for all calls of one kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from perfmodel.graph.node import Node, Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class Kinds:
    """Kinds of the tensors and nodes of one graph, numbered as they first occur.

    Parameters
    ----------
    tensors : list of int
        Kind of each tensor: of one shape, type and role.
    nodes : list of int
        Kind of each node: of one operator, phase and attributes, over tensors of equal kinds.
    first_nodes : list of int
        Position of the first node of each kind.
    """

    tensors: list[int]
    first_tensors: list[int]
    nodes: list[int]
    first_nodes: list[int]


def kinds_of(nodes: Sequence[Node], tensors: Sequence[Tensor]) -> Kinds:
    """Return which tensors and nodes of a graph are alike."""
    of_tensor, first_tensors = _numbered(
        [(tensor.shape, tensor.dtype, tensor.role) for tensor in tensors]
    )
    kind = of_tensor.__getitem__
    of_node, first_nodes = _numbered(
        [
            (node.op, node.phase, tuple(map(kind, node.inputs)), tuple(map(kind, node.outputs)),
             _exactly(node))
            for node in nodes
        ]
    )  # fmt: skip
    return Kinds(
        tensors=of_tensor, first_tensors=first_tensors, nodes=of_node, first_nodes=first_nodes
    )


def _numbered(keys: list[tuple[object, ...]]) -> tuple[list[int], list[int]]:
    """Return a number for each key, equal for equal ones, and where each number first occurs."""
    number: dict[tuple[object, ...], int] = {}
    first: list[int] = []
    found = []
    for position, key in enumerate(keys):
        known = number.get(key)
        if known is None:
            known = number[key] = len(first)
            first.append(position)
        found.append(known)
    return found, first


def _exactly(node: Node) -> bytes | str:
    """Return attributes so that 1, 1.0 and true differ, as they do not as keys."""
    if not node.attrs:
        return b""
    try:
        text = orjson.dumps(node.attrs)
    except TypeError:
        return repr(sorted(node.attrs.items()))
    # It has one word for nothing, infinity and what is no number.
    return repr(sorted(node.attrs.items())) if b"null" in text else text

"""Put the nodes of a graph into an order in which they can run."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Set

from perfmodel.capture.onnx.reading.model import OnnxGraph, OnnxNode
from perfmodel.errors import UnsupportedOnnxError


def sort_nodes(nodes: list[OnnxNode], available: Set[str], graph: str) -> tuple[OnnxNode, ...]:
    """Sort nodes so that each follows the producers of its inputs; keep file order otherwise.

    Parameters
    ----------
    available : set of str
        Names that exist before the first node runs (inputs, initializers).

    Raises
    ------
    UnsupportedOnnxError
        A name produced twice, or a cycle.
    """
    producer: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in filter(None, node.outputs):
            if name in producer or name in available:
                raise UnsupportedOnnxError(
                    f"Tensor {name!r} of graph {graph!r} is produced twice, the second time by "
                    f"node {node.name!r}. An ONNX graph assigns each name once."
                )
            producer[name] = position
    return tuple(nodes[p] for p in _order(nodes, producer, graph))


def _order(nodes: list[OnnxNode], producer: dict[str, int], graph: str) -> list[int]:
    consumers: dict[int, list[int]] = {}
    waiting = [0] * len(nodes)
    for position, node in enumerate(nodes):
        for source in {producer[n] for n in _names_read(node) if n in producer}:
            consumers.setdefault(source, []).append(position)
            waiting[position] += 1
    ready = [p for p, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        position = heapq.heappop(ready)
        order.append(position)
        for consumer in consumers.get(position, ()):
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                heapq.heappush(ready, consumer)
    if len(order) < len(nodes):
        stuck = [nodes[p].name for p, count in enumerate(waiting) if count > 0][:5]
        raise UnsupportedOnnxError(
            f"Graph {graph!r} of the ONNX file has a cycle through {', '.join(map(repr, stuck))}. "
            "Recurrence must be written with Loop or Scan."
        )
    return order


def _names_read(node: OnnxNode) -> Iterator[str]:
    """Names that a node reads, those of its subgraphs' outer scope among them."""
    yield from filter(None, node.inputs)
    for value in node.attrs.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, OnnxGraph):
                yield from _free_names(item)


def _free_names(graph: OnnxGraph) -> Iterator[str]:
    own = {*graph.initializers, *(v.name for v in graph.inputs)}
    own.update(name for node in graph.nodes for name in node.outputs)
    for node in graph.nodes:
        yield from (name for name in _names_read(node) if name not in own)
    yield from (v.name for v in graph.outputs if v.name not in own)

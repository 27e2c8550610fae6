"""Kernels that a compiler fused, and the nodes of the captured graph that they came from.

Inductor names a kernel after the operators it fuses (``triton_poi_fused_add_relu_3``,
``cpp_fused_native_batch_norm_relu_0``) and runs them between calls that it left alone (products,
convolutions), which can be aligned with the graph. A fused kernel stands for the nodes of its
operators between the neighbours of that kind; its time is shared by the bytes that each node reads
and writes.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from perfmodel.graph.cost.base import REGISTER, OpClass
from perfmodel.graph.ir import Graph
from perfmodel.graph.node import DTYPE_BYTES
from perfmodel.graph.vocabulary import canonical_op
from perfmodel.traces.kernel_kinds import fused_operators

#: What inductor's C++ kernels for CPUs announce to the profiler.
_CPP = re.compile(r"^(?:graph_\d+_)?cpp_fused_(?P<ops>\w*?)_?\d+$")
#: Endings of variants of one operator, of which a capture and a compiler choose different ones.
_VARIANTS = re.compile(r"(?:_legit)?(?:_no_training|_functional)?$")


def fused_names(kernel: str) -> str | None:
    """Return the operators that a fused kernel lists, joined by ``_``; None for any other name.

    Examples
    --------
    >>> fused_names("graph_0_cpp_fused_add_relu_6"), fused_names("triton_poi_fused_gelu_1")
    ('add_relu', 'gelu')
    >>> fused_names("aten::addmm") is None
    True
    """
    found = _CPP.match(kernel)
    return found["ops"] if found else fused_operators(kernel)


class FusedNodes:
    """Gives the nodes of a graph to fused kernels, each node once.

    Parameters
    ----------
    taken : collection of int
        Nodes that calls of their own stand for.
    """

    def __init__(self, graph: Graph, taken: Collection[int]) -> None:
        self._bytes = _traffic(graph)
        self._open: dict[str, list[int]] = {}
        for position, node in enumerate(graph.nodes):
            if position not in taken and not _is_view(node.op):
                self._open.setdefault(plain_op(node.op), []).append(position)
        self._names = tuple(sorted(self._open, key=len, reverse=True))

    def claim(self, names: str, after: int, before: int) -> dict[int, float]:
        """Take the nodes of a kernel, with the share of its time that is each one's.

        Parameters
        ----------
        names : str
            As :func:`fused_names` returns them.
        after, before : int
            Nodes of the neighbouring calls; where the second is not behind the first, all
            behind the first are looked at.

        Returns
        -------
        dict of int to float
            Shares by node, summing to 1; empty where no node is left of any operator.
        """
        ops = [op for op in dict.fromkeys(_words(names, self._names)) if self._open[op]]
        end = before if before > after else len(self._bytes)
        found = [p for op in ops for p in self._open[op] if after < p < end]
        if not found:
            # A compiler moves work: then the nearest node of each operator it is.
            found = [min(self._open[op], key=lambda p: abs(p - after)) for op in ops]
        for op in ops:
            self._open[op] = [p for p in self._open[op] if p not in found]
        total = sum(self._bytes[p] for p in found)
        return {p: self._bytes[p] / total if total else 1 / len(found) for p in found}


def claim_fused(
    kernels: Mapping[int, str],
    anchors: Mapping[int, int],
    graph: Graph,
    *,
    taken: Collection[int] = (),
) -> dict[int, dict[int, float]]:
    """Return the nodes of each fused kernel of a step with their shares.

    Parameters
    ----------
    kernels : mapping of int to str
        Names as :func:`fused_names` returns them, by position in the step.
    anchors : mapping of int to int
        Nodes of other calls of the step, by position; both rise.
    taken : collection of int
        Nodes of calls that were moved; they say nothing about where others are.
    """
    nodes = FusedNodes(graph, {*anchors.values(), *taken})
    positions = sorted(anchors)
    claimed = {}
    for position, names in sorted(kernels.items()):
        place = bisect_left(positions, position)
        after = anchors[positions[place - 1]] if place else -1
        before = anchors[positions[place]] if place < len(positions) else len(graph.nodes)
        claimed[position] = nodes.claim(names, after, before)
    return claimed


def plain_op(op: str) -> str:
    """Return an operator without what tells its variants apart.

    Examples
    --------
    >>> plain_op("_native_batch_norm_legit_no_training"), plain_op("relu_")
    ('native_batch_norm', 'relu')
    """
    return _VARIANTS.sub("", op.strip("_"))


def _words(names: str, known: Sequence[str]) -> Iterator[str]:
    """Yield the known operators in a list joined by ``_``, the longest at each place."""
    rest = names.strip("_")
    while rest:
        found = next((op for op in known if rest.startswith(op)), None)
        if found is not None and rest[len(found) :][:1] in ("", "_"):
            yield found
            rest = rest[len(found) :].strip("_")
        else:
            rest = rest.partition("_")[2]


def _traffic(graph: Graph) -> list[float]:
    """Return the bytes that each node reads and writes."""
    return [
        float(sum(_size(t.shape, t.dtype) for t in (*graph.inputs_of(n), *graph.outputs_of(n))))
        for n in graph.nodes
    ]


def _size(shape: Sequence[int], dtype: str) -> float:
    size = float(DTYPE_BYTES.get(dtype, 4))
    for extent in shape:
        size *= extent
    return size


@lru_cache(maxsize=4096)
def _is_view(op: str) -> bool:
    entry = REGISTER.get(canonical_op(op))
    return entry is not None and entry.op_class is OpClass.VIEW

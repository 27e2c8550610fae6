"""The Graph: operators and tensors of one step.

A :class:`Graph` is a value. Nodes stand in program order and refer to tensors by position.
An operator that works in place, and a view, produce a *new* tensor that shares its
``storage`` with the old one, so that edges stay a DAG and memory is counted once.

What most answers need of a graph is kept beside it. Its nodes and tensors, which take longer to
read than to answer by, may be left unread until somebody looks at them: :func:`unread_graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfmodel.errors import InvalidGraphError
from perfmodel.graph.kinds import Kinds, kinds_of
from perfmodel.graph.merkle import content_hash
from perfmodel.graph.node import DTYPE_BYTES, AttrValue, Node, Tensor, make_node, make_tensor
from perfmodel.types import Role

__all__ = [
    "DTYPE_BYTES",
    "AttrValue",
    "Graph",
    "Node",
    "Tensor",
    "is_unread",
    "make_node",
    "make_tensor",
    "unread_graph",
]

#: Under which name the way to read an unread graph lies in it.
_READ = "_read"
_FIELDS = ("nodes", "tensors", "source")
#: One at a time: threads that ask for the same graph are to see the same nodes.
_READING = Lock()


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Operators and tensors of one step.

    Parameters
    ----------
    nodes : tuple of Node
        In program order: a node comes after the producers of its inputs.
    source : mapping of str to str
        Where the graph comes from (``model``, ``torch``, ...); for people, not in the hash.

    Raises
    ------
    InvalidGraphError
        An index out of range, a tensor with two producers, a use before its production, an
        unknown dtype or a negative extent.
    """

    nodes: tuple[Node, ...]
    tensors: tuple[Tensor, ...]
    source: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        _check(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Read a graph that was left unread so far."""
            return _looked_into(self, name)

    @cached_property
    def content_hash(self) -> str:
        """Hash of what the graph computes; names and order of independent nodes do not matter."""
        return content_hash(self.nodes, self.tensors, self.kinds, self.producer)

    @cached_property
    def kinds(self) -> Kinds:
        """Which of its tensors and nodes are alike."""
        return kinds_of(self.nodes, self.tensors)

    @cached_property
    def producer(self) -> tuple[int, ...]:
        """For each tensor the position of the node that produces it, or -1."""
        producer = [-1] * len(self.tensors)
        for position, node in enumerate(self.nodes):
            for index in node.outputs:
                producer[index] = position
        return tuple(producer)

    def inputs_of(self, node: Node) -> tuple[Tensor, ...]:
        """Input tensors of a node, in argument order."""
        return tuple(self.tensors[i] for i in node.inputs)

    def outputs_of(self, node: Node) -> tuple[Tensor, ...]:
        """Output tensors of a node."""
        return tuple(self.tensors[i] for i in node.outputs)

    def storage_bytes(self, role: Role) -> int:
        """Bytes of all distinct storages whose first tensor has a role.

        Returns
        -------
        int
            Bytes; a storage seen through several views counts once, by its largest view.
        """
        return self._bytes_by_role.get(role, 0)

    @cached_property
    def _bytes_by_role(self) -> Mapping[Role, int]:
        first: dict[int, Role] = {}
        size: dict[int, int] = {}
        of_kind = [self.tensors[index].size_bytes for index in self.kinds.first_tensors]
        for tensor, kind in zip(self.tensors, self.kinds.tensors, strict=True):
            known = size.get(tensor.storage)
            if known is None:
                first[tensor.storage] = tensor.role
            if known is None or of_kind[kind] > known:
                size[tensor.storage] = of_kind[kind]
        total: dict[Role, int] = {}
        for storage, role in first.items():
            total[role] = total.get(role, 0) + size[storage]
        return total

    @property
    def parameter_count(self) -> int:
        """Number of distinct parameters (elements), shared ones once."""
        seen: dict[int, int] = {}
        for tensor in self.tensors:
            if tensor.role is Role.PARAMETER:
                seen.setdefault(tensor.storage, tensor.element_count)
        return sum(seen.values())


def unread_graph(content_hash: str, read: Callable[[], Graph]) -> Graph:
    """Return a graph whose hash is known, and that is read when it is first looked into.

    Parameters
    ----------
    read : callable
        Returns the graph; what it raises, whoever looks raises.

    Examples
    --------
    >>> graph = unread_graph("ab", lambda: Graph(nodes=(), tensors=()))
    >>> graph.content_hash, is_unread(graph), graph.nodes, is_unread(graph)
    ('ab', True, (), False)
    """
    graph = object.__new__(Graph)
    vars(graph).update({"content_hash": content_hash, _READ: read})
    return graph


def is_unread(graph: Graph) -> bool:
    """Return whether a graph was not looked into yet."""
    return _READ in vars(graph)


def _looked_into(graph: Graph, name: str) -> Any:
    """Return an attribute that a graph lacks, once it was read."""
    if name not in _FIELDS:
        raise AttributeError(f"a graph has no attribute {name!r}")
    kept = vars(graph)
    with _READING:
        read = kept.get(_READ)
        if read is not None:
            found = read()
            kept.update({field: getattr(found, field) for field in _FIELDS})
            del kept[_READ]
    return kept[name]


def _check(graph: Graph) -> None:
    _check_tensors(graph)
    _check_order(graph, _producers(graph))


def _check_tensors(graph: Graph) -> None:
    for index, tensor in enumerate(graph.tensors):
        if tensor.dtype not in DTYPE_BYTES:
            raise InvalidGraphError(
                f"Tensor {index} has the unknown dtype {tensor.dtype!r}; use one of "
                f"{', '.join(DTYPE_BYTES)}.",
                pointer=f"/tensors/{index}",
            )
        if tensor.shape and min(tensor.shape) < 0:
            raise InvalidGraphError(
                f"Tensor {index} has the shape {tensor.shape}; every extent must be >= 0.",
                pointer=f"/tensors/{index}",
            )


def _producers(graph: Graph) -> dict[int, int]:
    """Return the position of the node that produces each tensor; no tensor has two."""
    count = len(graph.tensors)
    produced_at: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        for index in (*node.inputs, *node.outputs):
            if not 0 <= index < count:
                raise InvalidGraphError(
                    f"Node {position} ({node.op}) refers to tensor {index}, but there are "
                    f"{count} tensors.",
                    pointer=f"/nodes/{position}",
                )
        for index in node.outputs:
            if index in produced_at:
                raise InvalidGraphError(
                    f"Tensor {index} is produced by node {produced_at[index]} and again by node "
                    f"{position} ({node.op}); an in-place result must be a new tensor that "
                    "shares its storage.",
                    pointer=f"/nodes/{position}",
                )
            produced_at[index] = position
    return produced_at


def _check_order(graph: Graph, produced_at: Mapping[int, int]) -> None:
    for position, node in enumerate(graph.nodes):
        for index in node.inputs:
            if produced_at.get(index, -1) >= position:
                raise InvalidGraphError(
                    f"Node {position} ({node.op}) reads tensor {index}, which node "
                    f"{produced_at[index]} produces later; nodes must stand in program order "
                    "and form no cycle.",
                    pointer=f"/nodes/{position}",
                )

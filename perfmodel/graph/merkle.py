"""Merkle digests of a graph, up and down.

The *up* digest of a node covers everything that flows into it, its *down* digest everything
that it flows into. A graph is the multiset of both, so that neither numbering nor the order of
independent nodes matters, while sharing does: one tensor read twice has one down digest that
names both readers, two equal tensors have two.
"""

from __future__ import annotations

from hashlib import blake2b

from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.types import Phase

_SIZE = 16
_PHASES = {phase: phase.value for phase in Phase}


def merkle_digest(graph: Graph) -> bytes:
    """Digest a graph without regard to names, numbering and order of independent nodes.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    bytes
        16 bytes.
    """
    labels = _tensor_labels(graph)
    up = _up_digests(graph, labels)
    down, of_tensor = _down_digests(graph, up)
    leaves = [
        (tensor.storage, labels[index] + of_tensor[index])
        for index, tensor in enumerate(graph.tensors)
        if graph.producer[index] < 0
    ]
    parts = [*sorted(down), b"leaves", *sorted(leaf for _, leaf in leaves), b"shared"]
    return _digest(b"".join([*parts, *_shared_storages(leaves)]))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SIZE).digest()


_OF_NOTHING = _digest(b"")
#: Memory of a result: that of the first operand, or of none.
_FIRST, _NONE = (slot.to_bytes(4, "big", signed=True) for slot in (0, -1))


def _digest_of_all(digests: list[bytes]) -> bytes:
    """Digest some digests whatever their order."""
    if not digests:
        return _OF_NOTHING
    return _digest(digests[0] if len(digests) == 1 else b"".join(sorted(digests)))


def _tensor_labels(graph: Graph) -> list[bytes]:
    known: dict[tuple[object, ...], bytes] = {}
    labels = []
    for tensor in graph.tensors:
        key = (tensor.shape, tensor.dtype, tensor.role)
        label = known.get(key)
        if label is None:
            label = known[key] = _digest(_description(tensor))
        labels.append(label)
    return labels


def _description(tensor: Tensor) -> bytes:
    return f"{tensor.shape}|{tensor.dtype}|{tensor.role.value}".encode()


def _up_digests(graph: Graph, labels: list[bytes]) -> list[bytes]:
    flowing = list(labels)
    tensors = graph.tensors
    up = []
    for node in graph.nodes:
        parts = [_operator(node), *[flowing[index] for index in node.inputs]]
        parts.append(_results(node, tensors, labels))
        digest = _digest(b"|".join(parts))
        up.append(digest)
        for slot, index in enumerate(node.outputs):
            flowing[index] = _digest(digest + slot.to_bytes(4, "big"))
    return up


def _operator(node: Node) -> bytes:
    attrs = sorted(node.attrs.items()) if node.attrs else ()
    return f"{node.op}\0{_PHASES[node.phase]}\0{attrs!r}\0{len(node.inputs)}".encode(
        "utf-8", "surrogatepass"
    )


def _results(node: Node, tensors: tuple[Tensor, ...], labels: list[bytes]) -> bytes:
    """Describe each output, and which input it shares its memory with."""
    if len(node.inputs) == 1 == len(node.outputs):
        index = node.outputs[0]
        shared = tensors[index].storage == tensors[node.inputs[0]].storage
        return labels[index] + (_FIRST if shared else _NONE)
    memory: dict[int, int] = {}
    for slot, index in enumerate(node.inputs):
        memory.setdefault(tensors[index].storage, slot)
    return b"".join(
        labels[index] + memory.get(tensors[index].storage, -1).to_bytes(4, "big", signed=True)
        for index in node.outputs
    )


def _down_digests(graph: Graph, up: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    readers: list[list[bytes]] = [[] for _ in graph.tensors]
    of_tensor = [b""] * len(graph.tensors)
    down = [b""] * len(graph.nodes)
    for position in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[position]
        parts = [up[position]]
        for index in node.outputs:
            of_tensor[index] = _digest_of_all(readers[index])
            parts.append(of_tensor[index])
        digest = down[position] = _digest(b"|".join(parts))
        for slot, index in enumerate(node.inputs):
            readers[index].append(digest + slot.to_bytes(4, "big"))
    for index, digests in enumerate(readers):
        if not of_tensor[index]:
            of_tensor[index] = _digest_of_all(digests)
    return down, of_tensor


def _shared_storages(leaves: list[tuple[int, bytes]]) -> list[bytes]:
    groups: dict[int, list[bytes]] = {}
    for storage, leaf in leaves:
        groups.setdefault(storage, []).append(leaf)
    return sorted(_digest(b"".join(sorted(group))) for group in groups.values() if len(group) > 1)

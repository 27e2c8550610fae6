"""The hash of what a graph computes, through Merkle digests up and down.

The *up* digest of a node covers everything that flows into it, its *down* digest everything
that it flows into. A graph is the multiset of both, so that neither numbering nor the order of
independent nodes matters, while sharing does: one tensor read twice has one down digest that
names both readers, two equal tensors have two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

from perfmodel.graph.kinds import Kinds
from perfmodel.graph.node import Node, Tensor

_SIZE = 16
#: Copying an empty hash takes less than making one.
_empty_hash: Callable[[], blake2b] = blake2b(digest_size=_SIZE).copy


def content_hash(
    nodes: Sequence[Node], tensors: Sequence[Tensor], kinds: Kinds, producer: Sequence[int]
) -> str:
    """Hash what a graph computes.

    Names, source, numbering of tensors and storages, and the order of independent nodes do not
    matter; operators, attributes, phases, shapes, dtypes, roles and edges do.

    Parameters
    ----------
    producer : sequence of int
        Of each tensor; negative where no node produces it.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    of_kind = [_digest(_description(tensors[index])) for index in kinds.first_tensors]
    labels = [of_kind[kind] for kind in kinds.tensors]
    up = _up_digests(nodes, tensors, kinds, labels)
    down, of_tensor = _down_digests(nodes, len(tensors), up)
    leaves = [
        (tensor.storage, labels[index] + of_tensor[index])
        for index, (tensor, maker) in enumerate(zip(tensors, producer, strict=True))
        if maker < 0
    ]
    parts = [*sorted(down), b"leaves", *sorted([leaf for _, leaf in leaves]), b"shared"]
    digest = _digest(b"".join([*parts, *_shared_storages(leaves)]))
    return blake2b(digest, digest_size=16, person=b"graph-1").hexdigest()


def _digest(data: bytes) -> bytes:
    state = _empty_hash()
    state.update(data)
    digest: bytes = state.digest()
    return digest


_OF_NOTHING = _digest(b"")
#: Numbers of operands and results as they are written; -1 is none, and lies at the end.
_SLOTS: list[bytes] = [slot.to_bytes(4, "big", signed=True) for slot in (*range(256), -1)]
_FIRST: bytes = _SLOTS[0]
_NONE: bytes = _SLOTS[-1]


def _slot(number: int) -> bytes:
    return _SLOTS[number] if number < 256 else number.to_bytes(4, "big", signed=True)


def _digest_of_all(digests: list[bytes]) -> bytes:
    """Digest some digests whatever their order."""
    if not digests:
        return _OF_NOTHING
    return _digest(digests[0] if len(digests) == 1 else b"".join(sorted(digests)))


def _description(tensor: Tensor) -> bytes:
    return f"{tensor.shape}|{tensor.dtype}|{tensor.role.value}".encode()


def _up_digests(
    nodes: Sequence[Node], tensors: Sequence[Tensor], kinds: Kinds, labels: list[bytes]
) -> list[bytes]:
    flowing = list(labels)
    operators = [_operator(nodes[position]) for position in kinds.first_nodes]
    up = []
    for node, kind in zip(nodes, kinds.nodes, strict=True):
        parts = [operators[kind], *[flowing[index] for index in node.inputs]]
        parts.append(_results(node, tensors, labels))
        digest = _digest(b"|".join(parts))
        up.append(digest)
        for slot, index in enumerate(node.outputs):
            flowing[index] = _digest(digest + _slot(slot))
    return up


def _operator(node: Node) -> bytes:
    attrs = sorted(node.attrs.items()) if node.attrs else ()
    return f"{node.op}\0{node.phase.value}\0{attrs!r}\0{len(node.inputs)}".encode(
        "utf-8", "surrogatepass"
    )


def _results(node: Node, tensors: Sequence[Tensor], labels: list[bytes]) -> bytes:
    """Describe each output, and which input it shares its memory with."""
    inputs, outputs = node.inputs, node.outputs
    if len(outputs) == 1 and len(inputs) < 3:
        (index,) = outputs
        storage = tensors[index].storage
        if inputs and tensors[inputs[0]].storage == storage:
            return labels[index] + _FIRST
        shared = len(inputs) == 2 and tensors[inputs[1]].storage == storage
        return labels[index] + (_SLOTS[1] if shared else _NONE)
    memory: dict[int, int] = {}
    for slot, index in enumerate(inputs):
        memory.setdefault(tensors[index].storage, slot)
    return b"".join(
        [labels[index] + _slot(memory.get(tensors[index].storage, -1)) for index in outputs]
    )


def _down_digests(
    nodes: Sequence[Node], tensor_count: int, up: list[bytes]
) -> tuple[list[bytes], list[bytes]]:
    readers: list[list[bytes]] = [[] for _ in range(tensor_count)]
    of_tensor = [b""] * tensor_count
    down = [b""] * len(nodes)
    for position in range(len(nodes) - 1, -1, -1):
        node = nodes[position]
        parts = [up[position]]
        for index in node.outputs:
            of_tensor[index] = _digest_of_all(readers[index])
            parts.append(of_tensor[index])
        digest = down[position] = _digest(b"|".join(parts))
        for slot, index in enumerate(node.inputs):
            readers[index].append(digest + _slot(slot))
    for index, digests in enumerate(readers):
        if not of_tensor[index]:
            of_tensor[index] = _digest_of_all(digests)
    return down, of_tensor


def _shared_storages(leaves: list[tuple[int, bytes]]) -> list[bytes]:
    groups: dict[int, list[bytes]] = {}
    for storage, leaf in leaves:
        groups.setdefault(storage, []).append(leaf)
    return sorted([_digest(b"".join(sorted(group))) for group in groups.values() if len(group) > 1])

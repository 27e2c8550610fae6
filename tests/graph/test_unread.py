from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from perfmodel.graph.canonical import from_json, to_json
from perfmodel.graph.ir import Graph, Node, Tensor, is_unread, unread_graph
from perfmodel.types import Phase, Role


def product() -> Graph:
    shapes = ((4, 8), (8, 2), (4, 2))
    roles = (Role.INPUT, Role.PARAMETER, Role.ACTIVATION)
    tensors = tuple(
        Tensor(shape=shape, dtype="float32", role=role, storage=i)
        for i, (shape, role) in enumerate(zip(shapes, roles, strict=True))
    )
    node = Node(op="mm", phase=Phase.FORWARD, inputs=(0, 1), outputs=(2,))
    return Graph(nodes=(node,), tensors=tensors, source={"model": "product"})


class Reader:
    def __init__(self) -> None:
        self.text = to_json(product())
        self.count = 0

    def __call__(self) -> Graph:
        self.count += 1
        return from_json(self.text)


@pytest.mark.parametrize("name", ["nodes", "tensors", "source"])
def test_a_graph_is_read_once_when_it_is_looked_into(name: str) -> None:
    reader = Reader()
    graph = unread_graph(product().content_hash, reader)
    assert graph.content_hash == product().content_hash
    assert (reader.count, is_unread(graph)) == (0, True)
    assert getattr(graph, name) == getattr(product(), name)
    assert graph == product()
    assert (reader.count, is_unread(graph)) == (1, False)


def test_what_is_worked_out_of_a_graph_reads_it() -> None:
    # 8 x 2 parameters of 4 bytes.
    assert unread_graph("ab", Reader()).parameter_count == 16
    assert unread_graph("ab", Reader()).storage_bytes(Role.PARAMETER) == 64
    assert unread_graph("ab", Reader()).producer == (-1, -1, 0)
    assert to_json(unread_graph("ab", Reader())) == to_json(product())
    assert replace(unread_graph("ab", Reader()), source={}).nodes == product().nodes


def test_threads_see_the_same_nodes() -> None:
    reader = Reader()
    graph = unread_graph("ab", reader)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: id(graph.nodes), range(64)))
    assert reader.count == 1
    assert len(set(found)) == 1


def test_no_other_attribute_reads_it() -> None:
    reader = Reader()
    graph = unread_graph("ab", reader)
    with pytest.raises(AttributeError, match="edges"):
        _ = graph.edges  # type: ignore[attr-defined]
    copied = copy.copy(graph)
    assert reader.count == 0
    assert copied.nodes == product().nodes


def test_what_a_reader_raises_is_raised_until_it_does_not() -> None:
    answers = [None, product()]

    def read() -> Graph:
        found = answers.pop(0)
        if found is None:
            raise OSError("not there")
        return found

    graph = unread_graph("ab", read)
    with pytest.raises(OSError, match="not there"):
        _ = graph.nodes
    assert is_unread(graph)
    assert graph.nodes == product().nodes

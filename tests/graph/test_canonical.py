"""Canonical JSON round trips, refuses nonsense with its place; the hash obeys its laws."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_done import calls_of

from perfmodel.errors import InvalidGraphError
from perfmodel.graph.canonical import MAX_NODES, from_json, to_json
from perfmodel.graph.ir import AttrValue, Graph, Node, Tensor
from perfmodel.types import Phase, Role

SHAPES = [(), (1,), (4, 3), (2, 3, 8)]
OPS = ["mm", "relu", "add", "mylib::fused"]
ATTRS = [{}, {"dim": 1}, {"dim": (1, 2), "p": 0.5}, {"p": float("inf"), "mode": "sum"}]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw a DAG in program order, with leaves, views and shared inputs."""
    leaves = draw(st.integers(1, 3))
    tensors = [
        Tensor(shape=draw(st.sampled_from(SHAPES)), dtype="float32", role=Role.INPUT, storage=i)
        for i in range(leaves)
    ]
    nodes = []
    for _ in range(draw(st.integers(1, 7))):
        last = len(tensors) - 1
        inputs = tuple(draw(st.lists(st.integers(0, last), max_size=3)))
        is_view = bool(inputs) and draw(st.booleans())
        tensors.append(
            Tensor(
                shape=draw(st.sampled_from(SHAPES)),
                dtype=draw(st.sampled_from(["float32", "float16"])),
                role=Role.ACTIVATION,
                storage=tensors[inputs[0]].storage if is_view else len(tensors),
            )
        )
        nodes.append(
            Node(
                op=draw(st.sampled_from(OPS)),
                phase=draw(st.sampled_from(list(Phase))),
                inputs=inputs,
                outputs=(last + 1,),
                attrs=draw(st.sampled_from(ATTRS)),
                name=draw(st.text(max_size=4)),
            )
        )
    return Graph(nodes=tuple(nodes), tensors=tuple(tensors), source={"model": "drawn"})


def shuffled(graph: Graph, seed: int) -> Graph:
    """Renumber tensors and storages, and take any other program order of the same DAG."""
    rng = random.Random(seed)
    place = list(range(len(graph.tensors)))
    rng.shuffle(place)
    tensors: list[Tensor | None] = [None] * len(place)
    for index, tensor in enumerate(graph.tensors):
        tensors[place[index]] = replace(tensor, storage=tensor.storage * 7 + 3)
    waiting, done, order = list(range(len(graph.nodes))), set[int](), []
    while waiting:
        ready = [
            n
            for n in waiting
            if all(graph.producer[i] in done | {-1} for i in graph.nodes[n].inputs)
        ]
        chosen = rng.choice(ready)
        waiting.remove(chosen)
        done.add(chosen)
        order.append(graph.nodes[chosen])
    nodes = tuple(
        replace(
            node,
            inputs=tuple(place[i] for i in node.inputs),
            outputs=tuple(place[i] for i in node.outputs),
            name="renamed",
        )
        for node in order
    )
    return Graph(nodes=nodes, tensors=tuple(t for t in tensors if t is not None))


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 1000))
def test_hash_ignores_names_numbering_and_order_of_independent_nodes(
    graph: Graph, seed: int
) -> None:
    assert shuffled(graph, seed).content_hash == graph.content_hash


@settings(max_examples=60, deadline=None)
@given(graphs(), st.data())
def test_hash_changes_with_anything_that_is_computed(graph: Graph, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(graph.nodes) - 1))
    node = graph.nodes[position]
    tensor = graph.tensors[node.outputs[0]]
    other_phase = next(p for p in Phase if p is not node.phase)
    changes = [
        with_node(graph, position, replace(node, attrs={**node.attrs, "extra": 1})),
        with_node(graph, position, replace(node, op="another")),
        with_node(graph, position, replace(node, phase=other_phase)),
        with_node(graph, position, replace(node, inputs=(*node.inputs, 0))),
        with_tensor(graph, node.outputs[0], replace(tensor, shape=(*tensor.shape, 5))),
        with_tensor(graph, node.outputs[0], replace(tensor, dtype="int64")),
        with_tensor(graph, node.outputs[0], replace(tensor, role=Role.GRADIENT)),
    ]
    assert graph.content_hash not in {changed.content_hash for changed in changes}


def with_node(graph: Graph, position: int, node: Node) -> Graph:
    nodes = (*graph.nodes[:position], node, *graph.nodes[position + 1 :])
    return Graph(nodes=nodes, tensors=graph.tensors)


def with_tensor(graph: Graph, index: int, tensor: Tensor) -> Graph:
    tensors = (*graph.tensors[:index], tensor, *graph.tensors[index + 1 :])
    return Graph(nodes=graph.nodes, tensors=tensors)


def pair_of_products(second_weight: int) -> Graph:
    """Build ``x @ w`` and ``x @ v``, where v is w itself or another parameter of its shape."""
    tensors = (
        Tensor(shape=(2, 2), dtype="float32", role=Role.INPUT, storage=0),
        Tensor(shape=(2, 2), dtype="float32", role=Role.PARAMETER, storage=1),
        Tensor(shape=(2, 2), dtype="float32", role=Role.PARAMETER, storage=2),
        Tensor(shape=(2, 2), dtype="float32", role=Role.ACTIVATION, storage=3),
        Tensor(shape=(2, 2), dtype="float32", role=Role.ACTIVATION, storage=4),
    )
    nodes = (
        Node(op="mm", phase=Phase.FORWARD, inputs=(0, 1), outputs=(3,)),
        Node(op="mm", phase=Phase.FORWARD, inputs=(3, second_weight), outputs=(4,)),
    )
    return Graph(nodes=nodes, tensors=tensors)


def test_hash_tells_a_shared_weight_from_two_equal_ones() -> None:
    assert pair_of_products(1).content_hash != pair_of_products(2).content_hash


def test_hash_tells_an_argument_from_its_neighbour() -> None:
    graph = pair_of_products(2)
    swapped = with_node(graph, 1, replace(graph.nodes[1], inputs=(2, 3)))
    assert graph.content_hash != swapped.content_hash


def test_hash_tells_tied_storages_of_leaves() -> None:
    graph = pair_of_products(2)
    tied = with_tensor(graph, 2, replace(graph.tensors[2], storage=1))
    assert graph.content_hash != tied.content_hash


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_json_round_trip_is_exact(graph: Graph) -> None:
    text = to_json(graph)
    back = from_json(text)
    assert back == graph
    assert to_json(back) == text
    assert json.loads(text)["format"] == 1


@pytest.mark.parametrize(
    ("attrs", "name", "text"),
    [
        # The usual writer of JSON says how a number looks: 1e-05, not 1e-5.
        ({"eps": 1e-05, "alpha": 1e16}, "", '{"alpha":1e+16,"eps":1e-05}'),
        ({"b": 1, "a": (1.0, True)}, "", '{"a":[1.0,true],"b":1}'),
        ({"p": float("-inf"), "q": None}, "", '{"p":{"float":"-inf"},"q":null}'),
        ({"wide": 1 << 70}, "", '{"wide":1180591620717411303424}'),
        ({"mode": "\x7f\u00e4"}, "", '{"mode":"\\u007f\\u00e4"}'),
        ({}, "h\u00fclle", "{}"),
        ({}, "\ud800", "{}"),
    ],
)
def test_numbers_and_letters_are_written_in_one_way(
    attrs: dict[str, AttrValue], name: str, text: str
) -> None:
    node = Node(op="a", phase=Phase.FORWARD, inputs=(0,), outputs=(1,), attrs=attrs, name=name)
    leaf = Tensor(shape=(2,), dtype="float32", role=Role.INPUT, storage=0)
    graph = Graph(nodes=(node,), tensors=(leaf, replace(leaf, storage=1)))
    row = f'["a","forward",[0],[1],{text},{json.dumps(name)}]'
    tensors = '[[[2],"float32","input",0],[[2],"float32","input",1]]'
    written = f'{{"format":1,"nodes":[{row}],"source":{{}},"tensors":{tensors}}}'
    assert to_json(graph) == written.encode()
    back = from_json(written)
    assert back == graph
    assert repr(back.nodes[0].attrs) == repr(dict(sorted(attrs.items())))


def test_one_true_and_one_point_nought_are_different_attributes() -> None:
    leaf = Tensor(shape=(2,), dtype="float32", role=Role.INPUT, storage=0)
    tensors = (leaf, *(replace(leaf, storage=i) for i in (1, 2, 3)))
    values: tuple[AttrValue, ...] = (1, True, 1.0)
    nodes = tuple(
        Node(op="a", phase=Phase.FORWARD, inputs=(0,), outputs=(i + 1,), attrs={"x": value})
        for i, value in enumerate(values)
    )
    graph = Graph(nodes=nodes, tensors=tensors)
    assert graph.kinds.nodes == [0, 1, 2]
    assert from_json(to_json(graph)).content_hash == graph.content_hash
    hashes = {
        Graph(nodes=(replace(node, outputs=(1,)),), tensors=tensors[:2]).content_hash
        for node in nodes
    }
    assert len(hashes) == 3


def document(**changes: object) -> bytes:
    graph = {
        "format": 1,
        "nodes": [["relu", "forward", [0], [1], {}, ""]],
        "tensors": [[[2], "float32", "input", 0], [[2], "float32", "activation", 1]],
        "source": {},
    }
    return json.dumps({**graph, **changes}).encode()


def test_reads_a_document_written_by_hand() -> None:
    graph = from_json(document())
    assert graph.nodes[0].op == "relu"
    assert graph.tensors[1].shape == (2,)


TENSOR = [[2], "float32", "input", 0]


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"format": 2}, "/format"),
        ({"extra": 1}, "/extra"),
        ({"nodes": 5}, "/nodes"),
        ({"nodes": [["relu", "sideways", [0], [1], {}, ""]]}, "/nodes/0/1"),
        ({"nodes": [["relu", "forward", [0.5], [1], {}, ""]]}, "/nodes/0/2"),
        ({"nodes": [["relu", "forward", [True], [1], {}, ""]]}, "/nodes/0/2"),
        ({"nodes": [["relu", "forward", [0], [9], {}, ""]]}, "/nodes/0"),
        ({"nodes": [["relu", "forward", [1], [1], {}, ""]]}, "/nodes/0"),
        ({"nodes": [["relu", "forward", [0], [1], {"a": {"b": 1}}, ""]]}, "/nodes/0/4/a"),
        ({"tensors": [TENSOR, [[-1], "float32", "input", 1]]}, "/tensors/1/0"),
        ({"tensors": [TENSOR, [[2**40, 2**40], "float32", "input", 1]]}, "/tensors/1/0"),
        ({"tensors": [TENSOR, [[2], "float33", "input", 1]]}, "/tensors/1"),
        ({"tensors": [TENSOR, [[2], "float32", "guest", 1]]}, "/tensors/1/2"),
        ({"source": {"a": 1}}, "/source"),
    ],
)
def test_nonsense_is_refused_at_its_place(changes: dict[str, object], pointer: str) -> None:
    with pytest.raises(InvalidGraphError) as caught:
        from_json(document(**changes))
    assert caught.value.pointer == pointer


def test_own_captures_may_be_larger_than_what_anybody_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MAX_NODES == 120_000
    monkeypatch.setattr("perfmodel.graph.canonical.MAX_NODES", 100)
    rows = [["relu", "forward", [0], [], {}, ""]] * 101
    large = document(nodes=rows)
    with pytest.raises(InvalidGraphError):
        from_json(large)
    assert len(from_json(large, bounded=False).nodes) == len(rows)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"null", b"[]", b"\xff\xfe", b'{"format": NaN}', b"[" * 200_000, b"{" * 9,
        b"9" * 500, b"[" + b"0," * 3_000_000 + b"0]", '"\ud800"',
        document(nodes=[["a", "forward", [], [], {"d": [[[[[[[[[[1]]]]]]]]]]}, ""]]),
        document(nodes=[["a", "forward", [], [], {"x": 1e308}, ""]]).replace(b"1e+308", b"1e999"),
    ],
    ids=lambda value: repr(value[:12]),
)  # fmt: skip
def test_hostile_text_is_refused_with_little_work(text: bytes | str) -> None:
    def refuse() -> None:
        with pytest.raises(InvalidGraphError):
            from_json(text)

    assert calls_of(refuse) < 300


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutated_documents_never_break_the_reader(data: st.DataObject) -> None:
    text = bytearray(document())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    try:
        assert isinstance(from_json(bytes(text)), Graph)
    except InvalidGraphError as error:
        assert error.message


def _chain(count: int) -> Graph:
    tensors = [Tensor(shape=(8, 8), dtype="float32", role=Role.INPUT, storage=0)]
    nodes = []
    for i in range(count):
        tensors.append(
            Tensor(shape=(8, i + 1), dtype="float32", role=Role.ACTIVATION, storage=i + 1)
        )
        nodes.append(
            Node(op="add", phase=Phase.FORWARD, inputs=(i, i // 2), outputs=(i + 1,),
                 attrs={"alpha": i})
        )  # fmt: skip
    return Graph(nodes=tuple(nodes), tensors=tuple(tensors))


def test_the_work_of_a_hash_grows_with_the_nodes() -> None:
    few, many = (_chain(count) for count in (250, 2_000))
    calls = [calls_of(lambda graph=graph: replace(graph).content_hash) for graph in (few, many)]  # type: ignore[misc]
    # Sixty-two a node; in proportion to their square it would be 64 times as many.
    assert calls[1] < 8.5 * calls[0]
    assert calls[1] < 100 * len(many.nodes)

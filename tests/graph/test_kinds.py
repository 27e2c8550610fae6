"""Kinds tell apart what differs, and nothing else."""

from __future__ import annotations

from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.types import Phase, Role


def tensor(storage: int, shape: tuple[int, ...] = (2, 3), dtype: str = "float32") -> Tensor:
    return Tensor(shape=shape, dtype=dtype, role=Role.ACTIVATION, storage=storage)


def node(inputs: tuple[int, ...], outputs: tuple[int, ...], **changes: object) -> Node:
    facts = {"op": "relu", "phase": Phase.FORWARD, "attrs": {"dim": (1, 2)}, "name": "", **changes}
    return Node(inputs=inputs, outputs=outputs, **facts)  # type: ignore[arg-type]


def test_alike_are_calls_of_one_operator_on_equal_shapes() -> None:
    graph = Graph(
        tensors=(*map(tensor, range(4)), tensor(4, (3, 2)), tensor(5), tensor(6), tensor(7)),
        nodes=(
            node((0,), (1,)),
            node((1,), (2,), name="elsewhere"),
            node((2,), (3,), op="gelu"),
            node((3,), (4,)),
            node((3,), (5,), phase=Phase.BACKWARD),
            node((3,), (6,), attrs={"dim": (1, 3)}),
            node((3,), (7,), attrs={"dim": (1.0, 2.0)}),
        ),
    )
    kinds = graph.kinds
    assert kinds.tensors == [0, 0, 0, 0, 1, 0, 0, 0]
    assert kinds.first_tensors == [0, 4]
    assert kinds.nodes == [0, 0, 1, 2, 3, 4, 5]
    assert kinds.first_nodes == [0, 2, 3, 4, 5, 6]


def test_what_json_has_no_word_for_is_told_apart() -> None:
    values = (None, float("inf"), float("nan"), 1 << 70, (1 << 70) + 1)
    graph = Graph(
        tensors=tuple(map(tensor, range(6))),
        nodes=tuple(node((0,), (i + 1,), attrs={"x": v}) for i, v in enumerate(values)),
    )
    assert graph.kinds.nodes == [0, 1, 2, 3, 4]

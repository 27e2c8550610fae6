"""Cost tables: aligned, cached, and never a silent zero."""

from __future__ import annotations

import numpy as np
import pytest
from graph_totals import totals

from perfmodel.graph.cost import cost_of, cost_table
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.types import Phase, Role


@pytest.fixture
def graph() -> Graph:
    """Return ``relu(x @ w)`` and one operator that nobody knows."""
    shapes = [(2, 3), (3, 5), (2, 5), (2, 5), (2, 5)]
    tensors = tuple(
        Tensor(shape=s, dtype="float32", role=Role.INPUT, storage=i) for i, s in enumerate(shapes)
    )
    nodes = (
        Node(op="mm", phase=Phase.FORWARD, inputs=(0, 1), outputs=(2,)),
        Node(op="relu", phase=Phase.FORWARD, inputs=(2,), outputs=(3,)),
        Node(op="mylib::odd", phase=Phase.OPTIMIZER, inputs=(3,), outputs=(4,)),
    )
    return Graph(nodes=nodes, tensors=tensors)


def test_rows_are_the_costs_of_the_nodes(graph: Graph) -> None:
    table = cost_table(graph)
    for row, node in enumerate(graph.nodes):
        cost = cost_of(node, graph)
        assert (cost is not None) == table.priced[row]
        if cost is not None:
            assert table.flops[row] == cost.flops
            assert table.bytes_read[row] == cost.bytes_read
            assert table.bytes_written[row] == cost.bytes_written
    classes = [tuple(OpClass)[code] for code in table.op_class]
    assert classes == [OpClass.MATMUL, OpClass.ELEMENTWISE, OpClass.OTHER]
    assert [tuple(Phase)[code] for code in table.phase] == [n.phase for n in graph.nodes]
    assert table.engine_is_matrix.tolist() == [True, False, False]


def test_unpriced_operators_are_named(graph: Graph) -> None:
    assert totals(graph).unpriced == {"mylib::odd": 1}
    assert dict(totals(graph).unpriced) == {"mylib::odd": 1}


def test_totals_add_up(graph: Graph) -> None:
    # 2*2*5*3 for the product and 10 for the activation.
    total = totals(graph)
    assert total.flops == 60 + 10
    assert total.flops_by_phase[Phase.FORWARD] == 70
    assert total.flops_by_class[OpClass.MATMUL] == 60


def test_table_is_kept_with_the_graph_and_cannot_be_written(graph: Graph) -> None:
    table = cost_table(graph)
    assert cost_table(graph) is table
    with pytest.raises(ValueError, match="read-only"):
        table.flops[0] = 1.0


def test_empty_graph_costs_nothing() -> None:
    table = cost_table(Graph(nodes=(), tensors=()))
    assert table.flops.shape == (0,)
    assert np.count_nonzero(table.priced) == 0

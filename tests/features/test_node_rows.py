"""Equal nodes: what is put together, and what message passing over the classes gives."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.features.graph_data import GRAPH_COLUMNS, StepData, step_data
from perfmodel.features.node_rows import equal_nodes
from perfmodel.features.nodes import node_table


def test_equal_layers_fall_into_one_class() -> None:
    deep = made_up.mlp(32, [64] * 13, "relu", training=False)
    groups = equal_nodes(node_table(deep), hops=0)
    # 12 equal products and 12 equal activations; the ends may differ by their neighbours, and
    # the rounded distance of the weights is the same for all.
    assert len(groups.count) <= 6
    assert groups.count.sum() == 24
    assert groups.count.max() >= 10


def test_more_hops_tell_more_apart() -> None:
    table = node_table(made_up.convnet(2, 8, 6, 3, training=True))
    sizes = [len(equal_nodes(table, hops).count) for hops in range(4)]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("hops", [1, 2])
def test_messages_over_classes_are_messages_over_nodes(hops: int) -> None:
    # Mean of the neighbours' values, repeated: on classes it must give every node what it
    # would have got on the full graph.
    table = node_table(made_up.mlp(32, [64] * 9, "relu", training=True))
    groups = equal_nodes(table, hops)
    values = table.static[:, 3].astype(float)
    small = values[groups.representative]
    for _ in range(hops):
        values = values + _mean(values, table.edges) + 2 * _mean(values, table.edges[::-1])
        small = small + _mean(small, groups.reads) + 2 * _mean(small, groups.read_by)
    np.testing.assert_allclose(small[groups.class_of_node], values, rtol=1e-12)


def _mean(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    total = np.bincount(edges[1], weights=values[edges[0]], minlength=len(values))
    return total / np.maximum(np.bincount(edges[1], minlength=len(values)), 1)


def test_graph_data_fits_together() -> None:
    workload = made_up.samples(families=1)[1].workload
    data = step_data(workload, hops=2)
    classes = len(data.count)
    assert data.x.shape == (classes, len(GRAPH_COLUMNS))
    assert int(data.count.sum()) == len(workload.graph.nodes)
    assert data.reads.shape[0] == data.read_by.shape[0] == 2
    assert int(data.reads.max()) < classes
    assert bool((data.bound_s > 0).all())


def test_joined_steps_stay_apart() -> None:
    one, other = (step_data(s.workload, hops=2) for s in made_up.samples(families=1)[:2])
    both = StepData.join([one, other, one])
    begin = len(one.x)
    assert both.first.tolist() == [0, begin, begin + len(other.x)]
    assert np.bincount(both.step_of).tolist() == [begin, len(other.x), begin]
    edges = one.reads.shape[1]
    assert np.array_equal(both.reads[:, :edges], one.reads)
    further = both.reads[:, edges : edges + other.reads.shape[1]]
    assert np.array_equal(further, other.reads + begin)
    assert np.array_equal(both.x[begin : begin + len(other.x)], other.x)

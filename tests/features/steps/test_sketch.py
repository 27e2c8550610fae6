"""A sketch keeps every total of its graph and forgets the order of its nodes."""

from __future__ import annotations

import numpy as np
import pytest
import synthetic_workloads as made_up
import torch
from torch import nn

from perfmodel.capture.torch import capture_module
from perfmodel.features.nodes import STATIC_COLUMNS, node_table
from perfmodel.features.steps.sketch import (
    NEIGHBOUR_COLUMNS,
    ROLE_COLUMNS,
    StepSketch,
    architecture_key,
    step_sketch,
)
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.types import Mode, Phase, Precision, Role

MLP = made_up.mlp(32, [64, 64, 64, 64], "relu", training=True)
CONV = made_up.convnet(4, 8, 3, 3, training=True, size=14)
GRAPHS = pytest.mark.parametrize("graph", [MLP, CONV], ids=["mlp", "convnet"])


def _module() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def _captured(
    batch: int, mode: Mode = Mode.INFERENCE, precision: Precision = Precision.FP32, size: int = 16
) -> StepSketch:
    images = torch.zeros(batch, 3, size, size)
    graph = capture_module(_module(), (images,), mode=mode, precision=precision)
    return step_sketch(graph)


def _named_neighbours(sketch: StepSketch, row: int) -> dict[str, float]:
    shares = sketch.neighbours[row]
    return {NEIGHBOUR_COLUMNS[i]: float(shares[i]) for i in np.flatnonzero(shares)}


@GRAPHS
def test_totals_are_those_of_the_graph(graph: Graph) -> None:
    sketch, table = step_sketch(graph), node_table(graph)
    work = ~table.is_view
    # Equal rows are found by columns of single precision.
    assert sketch.count @ sketch.flops == pytest.approx(table.cost.flops.sum(), rel=1e-5)
    traffic = sketch.count @ sketch.traffic_bytes
    assert traffic == pytest.approx(table.traffic_bytes[work].sum(), rel=1e-5)
    assert sketch.count.sum() == np.count_nonzero(work)
    assert sketch.view_count == np.count_nonzero(table.is_view)
    assert len(sketch.count) < np.count_nonzero(work), "equal layers share a row"


@GRAPHS
def test_fusing_never_adds_traffic(graph: Graph) -> None:
    sketch = step_sketch(graph)
    assert np.all(sketch.fused_bytes <= sketch.traffic_bytes)
    assert np.all(sketch.fused_bytes >= 0)
    assert np.all((sketch.fused_launch > 0) & (sketch.fused_launch <= 1))


def test_two_point_wise_nodes_become_one_kernel() -> None:
    # x [1000] -> relu -> sigmoid -> out: 4 passes over 4000 bytes alone, 2 in one kernel.
    make = made_up.GraphBuilder()
    value = make.tensor((1000,), Role.INPUT)
    for op in ("relu", "sigmoid"):
        (value,) = make.node(op, (value,), [(1000,)])
    sketch = step_sketch(make.build())
    assert sketch.count @ sketch.traffic_bytes == 4 * 4000
    assert sketch.count @ sketch.fused_bytes == 2 * 4000
    assert sketch.count @ sketch.fused_launch == 1.0


def test_no_kernel_spans_two_phases() -> None:
    make = made_up.GraphBuilder()
    value = make.tensor((1000,), Role.INPUT)
    (value,) = make.node("relu", (value,), [(1000,)])
    make.node("sigmoid", (value,), [(1000,)], Phase.BACKWARD)
    sketch = step_sketch(make.build())
    assert np.array_equal(sketch.fused_launch, [1.0, 1.0])
    assert sketch.count @ sketch.fused_bytes == 4 * 4000


def test_a_product_is_no_part_of_a_fused_kernel() -> None:
    sketch = step_sketch(made_up.mlp(32, [64, 64], "relu", training=False))
    assert sorted(sketch.ops) == ["addmm", "relu"]
    assert np.array_equal(sketch.fused_launch, [1.0, 1.0])
    assert np.array_equal(sketch.fused_bytes, sketch.traffic_bytes)


@GRAPHS
def test_every_node_finds_its_row(graph: Graph) -> None:
    sketch, table = step_sketch(graph), node_table(graph)
    row = sketch.class_of_node
    assert np.array_equal(row == -1, table.is_view)
    kept = row >= 0
    assert np.array_equal(np.bincount(row[kept]), sketch.count)
    assert np.array_equal(table.static[kept], sketch.static[row[kept]])
    for node in np.flatnonzero(kept):
        assert sketch.ops[row[node]] == graph.nodes[node].op


def test_neighbours_by_hand() -> None:
    # Middle layer: addmm reads bias [64], x [32, 64] of a relu and weight [64, 64]; in eighths
    # of 64 + 2048 + 4096 = 6208 elements x is 2048 / 6208 = 0.33 -> 3/8, the state 0.67 -> 5/8.
    sketch = step_sketch(made_up.mlp(32, [64, 64, 64], "relu", training=False))
    found = [_named_neighbours(sketch, i) for i, op in enumerate(sketch.ops) if op == "addmm"]
    middle = {"reads_from_elementwise": 0.375, "reads_state": 0.625, "read_by_elementwise": 1.0}
    first = {"reads_given": 0.375, "reads_state": 0.625, "read_by_elementwise": 1.0}
    assert middle in found and first in found
    last = [_named_neighbours(sketch, i) for i, op in enumerate(sketch.ops) if op == "relu"]
    assert {"reads_from_matmul": 1.0, "read_by_none": 1.0} in last


def test_views_are_no_neighbours() -> None:
    assert not any(OpClass.VIEW.value in name for name in NEIGHBOUR_COLUMNS)
    assert step_sketch(MLP).view_count > 0


def test_the_order_of_independent_nodes_does_not_show() -> None:
    def towers(order: tuple[int, int]) -> Graph:
        make = made_up.GraphBuilder()
        source = make.tensor((16, 32), Role.INPUT)
        for tower in order:
            width = (48, 96)[tower]
            weight = make.tensor((32, width), Role.PARAMETER)
            (hidden,) = make.node("mm", (source, weight), [(16, width)])
            make.node("relu", (hidden,), [(16, width)])
        return make.build()

    one, other = step_sketch(towers((0, 1))), step_sketch(towers((1, 0)))
    assert one.ops == other.ops
    for name in ("static", "neighbours", "count", "flops", "traffic_bytes", "fused_bytes"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_bytes_by_role() -> None:
    # One layer 64 -> 128: weight and bias, 4 bytes each; the input 32 x 64.
    sketch = step_sketch(made_up.mlp(32, [64, 128], "relu", training=False))
    by_role = dict(zip(ROLE_COLUMNS, sketch.role_bytes, strict=True))
    assert by_role[Role.PARAMETER] == 4 * (64 * 128 + 128)
    assert by_role[Role.INPUT] == 4 * 32 * 64
    assert by_role[Role.OPTIMIZER_STATE] == 0


@GRAPHS
def test_bytes_by_role_are_those_of_the_graph(graph: Graph) -> None:
    expected = [graph.storage_bytes(role) for role in ROLE_COLUMNS]
    assert step_sketch(graph).role_bytes.tolist() == expected


def test_is_made_once_per_graph() -> None:
    assert step_sketch(MLP) is step_sketch(MLP)


@GRAPHS
def test_arrays_hold_everything_but_the_nodes(graph: Graph) -> None:
    sketch = step_sketch(graph)
    back = StepSketch.from_arrays(sketch.to_arrays())
    assert back.ops == sketch.ops and back.content_hash == sketch.content_hash
    assert back.view_count == sketch.view_count and len(back.class_of_node) == 0
    for name, array in sketch.to_arrays().items():
        assert np.array_equal(array, back.to_arrays()[name]), name
        assert array.dtype == back.to_arrays()[name].dtype, name


def test_arrays_that_lack_one_are_refused() -> None:
    arrays = step_sketch(MLP).to_arrays()
    del arrays["recursion"]
    with pytest.raises(KeyError, match="recursion"):
        StepSketch.from_arrays(arrays)


def test_column_by_name() -> None:
    sketch = step_sketch(CONV)
    for name in ("log_flops", STATIC_COLUMNS[-1]):
        assert np.array_equal(sketch.column(name), sketch.static[:, STATIC_COLUMNS.index(name)])


def test_an_empty_graph_has_an_empty_sketch() -> None:
    sketch = step_sketch(Graph(nodes=(), tensors=()))
    assert len(sketch.count) == 0 and sketch.static.shape == (0, len(STATIC_COLUMNS))


def test_a_job_keeps_its_key_at_every_batch_mode_and_precision() -> None:
    key = architecture_key(_captured(4), 4)
    assert len(key) == 16 and int(key, 16) >= 0
    for batch, mode, precision in (
        (1, Mode.INFERENCE, Precision.FP32),
        (32, Mode.INFERENCE, Precision.FP32),
        (8, Mode.TRAINING, Precision.FP32),
        (8, Mode.TRAINING, Precision.AMP_FP16),
        (8, Mode.INFERENCE, Precision.BF16),
    ):
        assert architecture_key(_captured(batch, mode, precision), batch) == key


def test_another_input_size_or_model_is_another_job() -> None:
    key = architecture_key(_captured(4), 4)
    assert architecture_key(_captured(4, size=24), 4) != key
    assert architecture_key(step_sketch(MLP), 4) != key

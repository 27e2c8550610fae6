"""A graph that somebody brings, asked for in another precision, against captures in that one."""

from dataclasses import replace

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.jobs.captured_step import CapturedStep, asked_in
from perfmodel.features.roofline import step_bound_s
from perfmodel.graph.canonical import to_json
from perfmodel.graph.in_precision import (
    in_precision,
    may_differ,
    narrow_types,
    own_precision,
    wider_types,
)
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.types import Mode, Phase, Precision, Role
from perfmodel.zoo.resolve import capture_job

JOBS = {
    "timm/resnet18": Job(model="timm/resnet18", batch_size=4),
    "zoo/gpt2": Job(
        model="zoo/gpt2", model_kwargs={"num_layers": 2}, batch_size=4, sequence_length=128
    ),
}


def _bound_s(graph: Graph, mode: Mode, precision: Precision) -> float:
    workload = Workload(
        graph=graph, accelerator=Catalog.default().get("A100-SXM4-80GB"), mode=mode, batch_size=4,
        precision=precision,
    )  # fmt: skip
    return step_bound_s(workload)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", JOBS)
def test_another_precision_has_the_bound_of_its_own_capture(name: str, mode: Mode) -> None:
    wide = capture_job(replace(JOBS[name], mode=mode))
    for precision, within in (
        (Precision.FP16, 0.01), (Precision.BF16, 0.01), (Precision.AMP_BF16, 0.05),
    ):  # fmt: skip
        captured = capture_job(replace(JOBS[name], mode=mode, precision=precision))
        made = in_precision(wide, precision)
        assert _bound_s(made, mode, precision) == pytest.approx(
            _bound_s(captured, mode, precision), rel=within
        )
        assert _bound_s(wide, mode, precision) > 5 * _bound_s(made, mode, precision)


def test_autocast_keeps_what_training_keeps_wide() -> None:
    wide = capture_job(replace(JOBS["timm/resnet18"], mode=Mode.TRAINING))
    made = in_precision(wide, Precision.AMP_FP16)
    for role in (Role.PARAMETER, Role.GRADIENT, Role.OPTIMIZER_STATE):
        before, after = (
            sorted(t.dtype for t in graph.tensors if t.role is role) for graph in (wide, made)
        )
        assert before == after
    convolutions = [node for node in made.nodes if node.op.startswith("convolution")]
    assert convolutions
    for node in convolutions:
        used = {made.tensors[i].dtype for i in (*node.inputs, *node.outputs)}
        assert used <= {"float16", "int64"}


def test_there_and_back_is_the_same() -> None:
    wide = capture_job(JOBS["zoo/gpt2"])
    assert in_precision(wide, Precision.FP32) is wide
    assert in_precision(wide, Precision.TF32) is wide
    narrow = in_precision(wide, Precision.BF16)
    assert in_precision(narrow, Precision.FP8) is narrow
    assert in_precision(narrow, Precision.FP32).content_hash == wide.content_hash


def test_a_graph_that_mixes_types_says_itself_how_it_computes() -> None:
    mixed = replace_first_product(capture_job(JOBS["zoo/gpt2"]))
    for precision in (Precision.FP32, Precision.FP16, Precision.AMP_BF16):
        assert in_precision(mixed, precision) is mixed


def replace_first_product(graph: Graph) -> Graph:
    """Return a graph whose first product reads and writes fp16."""
    node = next(node for node in graph.nodes if node.op == "addmm")
    tensors = list(graph.tensors)
    for i in (*node.inputs, *node.outputs):
        tensors[i] = replace(tensors[i], dtype="float16")
    return Graph(nodes=graph.nodes, tensors=tuple(tensors))


def test_what_may_differ_is_told_without_reading() -> None:
    wide = capture_job(JOBS["zoo/gpt2"])
    canonical = to_json(wide)
    assert not may_differ(canonical, Precision.FP32)
    assert not may_differ(canonical, Precision.TF32)
    assert may_differ(canonical, Precision.FP16)
    narrow = to_json(in_precision(wide, Precision.FP16))
    assert not may_differ(narrow, Precision.FP16)
    assert may_differ(narrow, Precision.FP32)
    assert may_differ(narrow, Precision.BF16)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("name", JOBS)
def test_the_precision_of_a_graph_is_that_of_its_capture(name: str, mode: Mode) -> None:
    for precision in (Precision.FP32, Precision.FP16, Precision.BF16, Precision.AMP_FP16):
        captured = capture_job(replace(JOBS[name], mode=mode, precision=precision))
        assert own_precision(captured) is precision
        assert not wider_types(captured)


def _quantised(kind: str, widened: bool) -> Graph:
    """Return a product in eight bits, of operands that are widened for it or not."""
    shapes = ((16, 32), (32, 8))
    tensors = [
        Tensor(shape=shape, dtype=kind, role=role, storage=at)
        for at, (shape, role) in enumerate(zip(shapes, (Role.INPUT, Role.PARAMETER), strict=True))
    ]
    nodes, operands = [], (0, 1)
    if widened:
        tensors += [replace(one, dtype="float32", role=Role.ACTIVATION, storage=at + 2)
                    for at, one in enumerate(tensors)]  # fmt: skip
        nodes = [_node("_to_copy", (at,), at + 2) for at in (0, 1)]
        operands = (2, 3)
    out = "float32" if widened else "int32"
    tensors.append(Tensor(shape=(16, 8), dtype=out, role=Role.ACTIVATION, storage=len(tensors)))
    return Graph(nodes=(*nodes, _node("mm", operands, len(tensors) - 1)), tensors=tuple(tensors))


def _node(op: str, inputs: tuple[int, ...], output: int) -> Node:
    return Node(op=op, phase=Phase.FORWARD, inputs=inputs, outputs=(output,))


@pytest.mark.parametrize("widened", [False, True])
@pytest.mark.parametrize(
    ("kind", "precision"),
    [("int8", Precision.INT8), ("uint8", Precision.INT8), ("float8_e4m3fn", Precision.FP8)],
)
def test_products_in_eight_bits_are_told(kind: str, precision: Precision, *, widened: bool) -> None:
    graph = _quantised(kind, widened)
    assert own_precision(graph) is precision
    assert narrow_types(graph) == [precision]
    assert may_differ(to_json(graph), Precision.FP32)
    step = CapturedStep(graph=graph)
    [said] = asked_in(step, Precision.FP32).warnings
    assert f"ask for the precision {precision.value}" in said
    assert not asked_in(step, precision).warnings


def test_operands_that_are_narrowed_for_a_product_are_in_eight_bits() -> None:
    graph = _quantised("int8", widened=False)
    wide = Tensor(shape=(16, 32), dtype="float32", role=Role.INPUT, storage=9)
    at = len(graph.tensors)
    narrowed = Graph(
        nodes=(_node("_to_copy", (at,), 0), *graph.nodes),
        tensors=(replace(graph.tensors[0], role=Role.ACTIVATION), *graph.tensors[1:], wide),
    )
    assert own_precision(narrowed) is Precision.INT8


def test_weights_alone_in_eight_bits_make_no_product_in_them() -> None:
    graph = _quantised("int8", widened=True)
    wide = replace(graph.tensors[0], dtype="float32")
    assert own_precision(replace(graph, tensors=(wide, *graph.tensors[1:]))) is Precision.FP32


def test_most_products_say_how_a_mixed_graph_computes() -> None:
    graph = capture_job(replace(JOBS["zoo/gpt2"], precision=Precision.BF16))
    assert own_precision(replace_first_product(graph)) is Precision.BF16
    assert own_precision(Graph(nodes=(), tensors=())) is None

"""Single operators asked of the installed model, and of none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.single.compared_operators import (
    OperatorCall,
    operator_call,
    predict_operators,
)
from perfmodel.estimator.single.loading import load_model
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.predictors.kernels.kernel_times import (
    LAUNCH_S,
    SHORTEST_STREAM_S,
    TYPICAL_EFFICIENCY,
    WAIT_S,
    AnalyticalKernels,
)
from perfmodel.traces.analysis.operator_work import PricedOperator, roofline_s
from perfmodel.traces.analysis.operators import TracedOperator
from perfmodel.traces.trace import OperatorArguments, TracedInput, TracedTensor
from perfmodel.types import Basis, Phase, Precision, Role

SHIPPED = Path(__file__).parents[3] / "models"
DEVICE = Catalog.default().get("H100-SXM5-80GB")


def _product(m: int, n: int, k: int) -> OperatorCall:
    shapes = [(m, k), (k, n), (m, n)]
    tensors = tuple(
        Tensor(shape=shape, dtype="bfloat16", role=Role.INPUT, storage=i)
        for i, shape in enumerate(shapes)
    )
    node = Node(op="mm", phase=Phase.FORWARD, inputs=(0, 1), outputs=(2,), attrs={})
    return OperatorCall(graph=Graph(nodes=(node,), tensors=tensors), precision=Precision.BF16)


def _moving(op: str, elements: int) -> OperatorCall:
    tensors = tuple(
        Tensor(shape=(elements,), dtype="float32", role=Role.INPUT, storage=i) for i in range(2)
    )
    node = Node(op=op, phase=Phase.FORWARD, inputs=(0,), outputs=(1,), attrs={})
    return OperatorCall(graph=Graph(nodes=(node,), tensors=tensors), precision=Precision.FP32)


def test_without_a_joint_predictor_a_call_is_a_step() -> None:
    calls = [_product(1024, 1024, 1024), _product(8192, 8192, 8192)]
    small, large = predict_operators(AnalyticalModel(), calls, DEVICE)
    assert 0 < small.time_s < large.time_s


@pytest.mark.skipif(not (SHIPPED / "default").is_dir(), reason="no model is shipped")
def test_the_shipped_model_stays_above_the_roofline_and_grows_with_the_work() -> None:
    model = load_model(SHIPPED).model
    calls = [_product(size, 4096, 4096) for size in (64, 1024, 8192)]
    found = predict_operators(model, calls, DEVICE)
    for call, one in zip(calls, found, strict=True):
        assert one.low_s <= one.time_s <= one.high_s
        assert one.time_s >= roofline_s(call.graph, DEVICE, Precision.BF16)
    assert found[0].time_s < found[1].time_s < found[2].time_s
    # Large products reach half of the peak or more: 2 x 8192 x 4096^2 FLOP at 989 TFLOP/s.
    assert found[2].time_s < 2 * (2 * 8192 * 4096**2 / 989e12)
    assert predict_operators(model, calls[1:2], DEVICE)[0].time_s == pytest.approx(
        found[1].time_s, rel=1e-5
    )


@pytest.mark.skipif(not (SHIPPED / "default").is_dir(), reason="no model is shipped")
@pytest.mark.parametrize("device", ["H100-SXM5-80GB", "MI300X"])
def test_calls_that_move_their_operands_do_not_wait_for_their_host(device: str) -> None:
    spec, model = Catalog.default().get(device), load_model(SHIPPED).model
    typical = AnalyticalKernels()
    for op in ("clone", "relu"):
        calls = [_moving(op, elements) for elements in (16, 1 << 20, 1 << 28)]
        found = predict_operators(model, calls, spec)
        for call, one in zip(calls, found, strict=True):
            assert one.low_s <= one.time_s <= one.high_s
            bound = LAUNCH_S + roofline_s(call.graph, spec, call.precision) / TYPICAL_EFFICIENCY
            assert one.time_s <= bound * 1.001
        assert found[0].time_s == pytest.approx(LAUNCH_S, rel=1e-2)
        assert found[0].model_version == typical.version
        assert found[0].basis is Basis.ANALYTICAL
        assert found[0].time_s < found[1].time_s < found[2].time_s


@pytest.mark.skipif(not (SHIPPED / "default").is_dir(), reason="no model is shipped")
@pytest.mark.parametrize(
    ("device", "launch_s"), [("H100-SXM5-80GB", SHORTEST_STREAM_S), ("MI300X", LAUNCH_S)]
)
def test_sums_wait_once_for_their_parts(device: str, launch_s: float) -> None:
    """Parts are summed by many blocks, then what they came to; streams as tables have them."""
    spec, model = Catalog.default().get(device), load_model(SHIPPED).model
    kernels, _ = load_kernels(SHIPPED)
    calls = [_moving("sum", elements) for elements in (16, 1 << 20)]
    short, longer = predict_operators(model, calls, spec, kernels)
    assert short.time_s == pytest.approx(launch_s + WAIT_S, rel=1e-2)
    assert short.low_s < short.time_s < longer.time_s < longer.high_s
    streamed_s = roofline_s(calls[1].graph, spec, calls[1].precision) / TYPICAL_EFFICIENCY
    assert longer.time_s <= (launch_s + WAIT_S + streamed_s) * 1.001


@pytest.mark.skipif(not (SHIPPED / "default").is_dir(), reason="no model is shipped")
def test_operands_that_lie_unlike_are_no_streams_of_tables() -> None:
    model, (kernels, _) = load_model(SHIPPED).model, load_kernels(SHIPPED)
    even = _moving("relu", 1 << 28)
    uneven = replace(even, is_even=False)
    fast, slow = predict_operators(model, [even, uneven], DEVICE, kernels)
    least_s = roofline_s(even.graph, DEVICE, even.precision)
    assert fast.time_s < 1.5 * least_s < slow.time_s
    assert slow.time_s <= (LAUNCH_S + least_s / TYPICAL_EFFICIENCY) * 1.001


@pytest.mark.parametrize(
    ("tensors", "is_even"),
    [
        ([((4, 8), (8, 1)), ((4, 8), (8, 1))], True),
        ([((4, 8), (1, 4)), ((4, 8), (1, 4))], True),  # both in columns
        ([((4, 8), (8, 1)), ((), ())], True),  # a number
        ([((4, 8), None), ((4, 8), None)], True),  # the trace tells no strides
        ([((4, 8), (8, 1)), ((4, 8), (1, 4))], False),  # one of them transposed
        ([((4, 8), (8, 1)), ((8,), (1,))], False),  # one is repeated
        ([((4, 8), (16, 1))], False),  # a part of each row
    ],
)
def test_operands_are_even_where_they_lie_alike(
    tensors: list[tuple[tuple[int, ...], tuple[int, ...] | None]], is_even: bool
) -> None:
    given = tuple(
        TracedTensor(shape=shape, dtype="float32", strides=strides) for shape, strides in tensors
    )
    operator = TracedOperator(
        name="aten::add", op="add", op_class="elementwise", phase=Phase.FORWARD,
        arguments=OperatorArguments(inputs=tuple(TracedInput(tensors=(one,)) for one in given)),
        calls=1, kernels=1, time_s=1e-6, alone_s=1e-6, joined=True, kernel_names=(),
    )  # fmt: skip
    priced = PricedOperator(
        operator=operator, precision=Precision.FP32, graph=_moving("add", 32).graph
    )
    call = operator_call(priced)
    assert call is not None and call.is_even is is_even
    assert operator_call(replace(priced, graph=None)) is None


@pytest.mark.skipif(not (SHIPPED / "default").is_dir(), reason="no model is shipped")
def test_norms_are_kernels_that_wait_and_cpus_are_answered_by_the_model_of_steps() -> None:
    model = load_model(SHIPPED).model
    cpu = Catalog.default().get("EPYC-7763")
    for op in ("relu", "sum", "native_batch_norm"):
        one = predict_operators(model, [_moving(op, 16)], cpu)[0]
        assert one.model_version != AnalyticalKernels.version
    (norm,) = predict_operators(model, [_moving("native_batch_norm", 16)], DEVICE)
    assert norm.time_s == pytest.approx(LAUNCH_S + 2 * WAIT_S, rel=1e-2)

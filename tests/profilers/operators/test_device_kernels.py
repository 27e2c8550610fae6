"""Kernels of a made-up device trace, joined to the nodes of a real capture."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from perfmodel.capture.program import make_program
from perfmodel.capture.torch import capture
from perfmodel.graph.ir import Graph
from perfmodel.profilers.operators.device_kernels import (
    DeviceOperators,
    busy_seconds,
    kernel_events,
    profile_device,
)
from perfmodel.profilers.runtime.cpu import CpuRuntime
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.trace import KernelKind, OperatorArguments, Trace, TracedInput, TracedTensor
from perfmodel.types import Mode

US = 1_000


def two_layers() -> Graph:
    """``linear(64, 96), relu``: t, addmm, relu."""
    module = nn.Sequential(nn.Linear(64, 96), nn.ReLU())
    return capture(make_program(module, (torch.randn(16, 64),), mode=Mode.INFERENCE))


class Step:
    """Calls and kernels of one step on a device, each of which begins when the last has ended."""

    def __init__(self) -> None:
        self.builder = TraceBuilder("kineto")
        self._host_us = self._device_us = 0

    def call(self, name: str, *shapes: tuple[int, ...], inside: int = -1) -> int:
        given = OperatorArguments(
            inputs=tuple(
                TracedInput(tensors=(TracedTensor(shape=shape, dtype="float32"),))
                for shape in shapes
            )
        )
        self._host_us += 1
        return self.builder.add_operator(
            name, start_ns=self._host_us * US, duration_ns=US, parent=inside,
            arguments=self.builder.arguments(shapes, lambda: given),
        )  # fmt: skip

    def kernel(
        self, name: str, us: int, *, by: int = -1, kind: KernelKind = KernelKind.COMPUTE,
        after_us: int = 0,
    ) -> None:  # fmt: skip
        begin_us = self._device_us + after_us
        self.builder.add_kernel(
            name, start_ns=begin_us * US, duration_ns=us * US, device=0, operator=by, kind=kind
        )
        self._device_us = begin_us + us

    def trace(self) -> Trace:
        return self.builder.build()


def eager_step() -> Trace:
    step = Step()
    linear = step.call("aten::linear", (16, 64), (96, 64))
    step.call("aten::t", (96, 64), inside=linear)
    addmm = step.call("aten::addmm", (96,), (16, 64), (64, 96), inside=linear)
    helper = step.call("aten::empty_strided", inside=addmm)
    step.kernel("Memcpy HtoD (Pinned -> Device)", 5, kind=KernelKind.COPY, by=linear)
    step.kernel("Memset (Device)", 1, kind=KernelKind.MEMSET, by=addmm)
    step.kernel("ampere_sgemm", 40, by=helper)
    relu = step.call("aten::relu", (16, 96))
    step.kernel("vectorized_elementwise", 10, by=relu, after_us=20)
    step.kernel("ncclDevKernel_AllReduce", 30, kind=KernelKind.COLLECTIVE, by=relu)
    step.kernel("stray_kernel", 2)
    return step.trace()


def test_kernels_go_to_the_call_that_a_graph_has_a_node_for() -> None:
    graph = two_layers()
    joined = DeviceOperators([eager_step()]).join(graph)
    times_us = {graph.nodes[node].op: round(s * 1e6) for node, s in joined.times_s.items()}
    # The product has its own memory set (1) and the kernel that a helper of it launched (40).
    assert times_us == {"t": 0, "addmm": 41, "relu": 10}
    assert {name: round(s * 1e6) for name, s in joined.unjoined_s.items()} == {
        "copy": 5, "collective": 30, "stray_kernel": 2,
    }  # fmt: skip
    # 51 of 88 us are joined and the other 37 named: nothing is lost.
    assert joined.total_s == pytest.approx(88e-6)
    assert joined.joined_share == pytest.approx(51 / 88)


def test_kernels_of_a_replayed_graph_have_no_call_and_keep_their_names() -> None:
    step = Step()
    step.kernel("sgemm", 40)
    step.kernel("vectorized_elementwise", 10)
    joined = DeviceOperators([step.trace()]).join(two_layers())
    assert not joined.times_s
    assert {name: round(s * 1e6) for name, s in joined.unjoined_s.items()} == {
        "sgemm": 40, "vectorized_elementwise": 10,
    }  # fmt: skip


def test_busy_time_leaves_out_where_the_device_waited() -> None:
    # 5 + 1 + 40 us, a gap of 20, then 10 + 30 + 2.
    assert busy_seconds(eager_step()) == pytest.approx(88e-6)
    assert DeviceOperators([eager_step()] * 3).busy_s == pytest.approx(88e-6)
    assert DeviceOperators([]).busy_s is None


def test_overlapping_kernels_are_busy_once() -> None:
    builder = TraceBuilder("kineto")
    for stream in (7, 20):
        builder.add_kernel("k", start_ns=0, duration_ns=10 * US, device=0, stream=stream)
    assert busy_seconds(builder.build()) == pytest.approx(10e-6)


def test_a_fused_kernel_is_shared_by_the_nodes_it_came_from() -> None:
    module = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Sigmoid(), nn.Linear(96, 8))
    graph = capture(make_program(module, (torch.randn(16, 64),), mode=Mode.INFERENCE))
    step = Step()
    region = step.call("Torch-Compiled Region: 0/0")
    first = step.call("aten::addmm", (96,), (16, 64), (64, 96), inside=region)
    step.kernel("sgemm", 40, by=first)
    fused = step.call("triton_poi_fused_relu_sigmoid_0", (16, 96), inside=region)
    step.kernel("triton_poi_fused_relu_sigmoid_0", 12, by=fused)
    last = step.call("aten::addmm", (8,), (16, 96), (96, 8), inside=region)
    step.kernel("sgemm", 20, by=last)
    joined = DeviceOperators([step.trace()]).join(graph)
    by_op = [(graph.nodes[node].op, round(s * 1e6)) for node, s in sorted(joined.times_s.items())]
    # Both parts read and write 16 x 96 floats: 6 us each.
    assert by_op == [("addmm", 40), ("relu", 6), ("sigmoid", 6), ("addmm", 20)]
    assert joined.joined_share == 1.0


def test_what_the_profiler_writes_is_read_back() -> None:
    """On a CPU the trace has calls and no kernels: nothing is busy, and nothing is made up."""
    module = nn.Sequential(nn.Linear(64, 96), nn.ReLU())
    program = make_program(module, (torch.randn(16, 64),), mode=Mode.INFERENCE)
    program.step()
    found = profile_device(program.step, CpuRuntime(), steps=1)
    (trace,) = found.read.traces
    events = {event.op: event.shapes for event in kernel_events(trace)}
    assert list(events) == ["t", "addmm", "relu"]
    assert events["addmm"] == ((96,), (16, 64), (64, 96))
    assert found.busy_s == 0.0

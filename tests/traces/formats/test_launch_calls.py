"""Kernels and the calls that launched them."""

from __future__ import annotations

from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.launch_calls import LaunchCalls
from perfmodel.traces.trace import Trace


def _joined(kernels: list[int], calls: list[tuple[int, int, int, bool]]) -> Trace:
    """Return kernels by their ids, each 100 ns apart from 1000 on, and calls of 10 ns.

    Two operators run on thread 1, from 100 to 200 and inside from 140 to 160.
    """
    builder = TraceBuilder("made up")
    launches = LaunchCalls(builder)
    builder.add_operator("outside", start_ns=100, duration_ns=100, thread=1)
    builder.add_operator("inside", start_ns=140, duration_ns=20, thread=1)
    for row, correlation in enumerate(kernels):
        builder.add_kernel("k", start_ns=1000 + 100 * row, duration_ns=50)
        launches.of_kernels.append(correlation)
    for correlation, start_ns, thread, graph in calls:
        launches.add(correlation, start_ns, 10, thread=thread, graph=graph)
        launches.enter()
    return launches.build()


def test_the_innermost_operator_on_the_thread_launched() -> None:
    calls = [(7, 150, 1, False), (5, 110, 1, False), (6, 150, 2, False), (9, 250, 1, False)]
    trace = _joined([5, 6, 7, 8, 9], calls)
    # Times count from the first operator, which starts at 100. 6 was launched on another thread, 8
    # by no call, 9 after the operators.
    assert trace.kernels.launch_start_ns.tolist() == [10, 50, 50, -1, 150]
    assert trace.kernels.operator.tolist() == [0, -1, 1, -1, -1]
    assert trace.operators.parent.tolist() == [-1, 0]


def test_a_graph_launches_many_kernels_by_one_call() -> None:
    trace = _joined([4, 3, 4, 4], [(4, 120, 1, True), (3, 130, 1, False)])
    assert trace.kernels.graph.tolist() == [True, False, True, True]
    assert trace.kernels.launch_start_ns.tolist() == [20, 30, 20, 20]
    assert trace.kernels.launch_duration_ns.tolist() == [10] * 4


def test_no_id_is_no_match() -> None:
    trace = _joined([-1, -1], [(-1, 120, 1, False)])
    assert trace.kernels.launch_start_ns.tolist() == [-1, -1]


def test_without_kernels_and_calls() -> None:
    assert len(_joined([], []).kernels) == 0

"""What a made trace of two steps says, each figure derived from its times."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import made_traces as made
import numpy as np
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.traces.analysis.explanation import TraceExplanation, explain_trace, main_device
from perfmodel.traces.analysis.steps import find_steps, repetition
from perfmodel.traces.analysis.timeline import beside_others
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import Trace, TracedStep
from perfmodel.types import Phase, Precision


def _trace(folder: Path, events: list[made.Event], **members: object) -> Trace:
    return read_trace(made.write_trace(folder / "trace.json", events, **members))


@pytest.fixture
def found(tmp_path: Path) -> TraceExplanation:
    return explain_trace(_trace(tmp_path, made.training_events()))


def test_steps_and_where_their_time_went(found: TraceExplanation) -> None:
    assert (found.steps.found, found.step_count) == ("marked", 2)
    assert found.steps.step_time_s == pytest.approx(100e-6)
    (device,) = found.times
    assert device.window_s == pytest.approx(200e-6)
    # Per step: products 20..30 and 40..60, all-reduce 55..80, copy 85..90.
    assert device.computing_s == pytest.approx(2 * 30e-6)
    assert device.communicating_s == pytest.approx(2 * 25e-6)
    # Of the all-reduce 60..80 nothing was computed.
    assert device.exposed_s == pytest.approx(2 * 20e-6)
    assert device.moving_s == pytest.approx(2 * 5e-6)
    # Idle 0..20, 30..40, 80..85, 90..100.
    assert device.idle_s == pytest.approx(2 * 45e-6)
    # Launches end at 9, 35 and 84: of the first 20 us 9 were before, of 30..40 five, of 80..85
    # four; in the second step the ten before its start as well, since the device was idle from 90.
    assert device.launch_bound_s == pytest.approx((9 + 5 + 4 + 10 + 9 + 5 + 4) * 1e-6)


def test_operators_are_joined_priced_and_compared_with_the_roofline(
    found: TraceExplanation,
) -> None:
    pytest.importorskip("torch")
    assert found.joined_share == 1.0
    by = {(one.operator.name, one.operator.phase): one for one in found.operators}
    forward = by["aten::matmul", Phase.FORWARD]
    backward = by["aten::mm", Phase.BACKWARD]
    assert (forward.operator.calls, forward.operator.time_s) == (2, pytest.approx(20e-6))
    assert backward.operator.time_per_call_s == pytest.approx(20e-6)
    assert (forward.operator.forward, backward.operator.forward) == ("", "aten::mm")
    # Products run 20..30 and 40..60, the all-reduce from 55 on.
    assert (forward.operator.alone_s, backward.operator.alone_s) == (pytest.approx(10e-6), None)
    # 8 x 16 x 32 multiply-adds; 8 x 16 + 16 x 32 + 8 x 32 elements of four bytes.
    assert forward.flops == 2 * 8 * 16 * 32
    assert forward.size_bytes == 4 * (8 * 16 + 16 * 32 + 8 * 32)
    assert forward.flops_per_s == pytest.approx(8192 / 10e-6)
    spec = Catalog.default().get("H100-SXM5-80GB")
    least_s = max(8192 / spec.peak_flops["fp32"], 3584 / spec.bandwidth_bytes_per_s)
    assert forward.roofline_share == pytest.approx(least_s / 10e-6)
    assert forward.precision is Precision.FP32
    named = [one.operator.name for one in found.operators]
    assert set(named) >= {"(collectives)", "(copies)"}


def test_one_step_alone(tmp_path: Path) -> None:
    events = made.training_events()
    # The product of the second step takes 30 us longer... on the device.
    slow = next(e for e in events if e["name"] == "sgemm_nn" and e["ts"] > 1100)
    slow["dur"] = 15.0
    trace = _trace(tmp_path, events)
    first, second = (explain_trace(trace, step=step) for step in (0, 1))
    assert (first.step_count, second.step_count) == (1, 1)
    assert second.device_time_s - first.device_time_s == pytest.approx(5e-6)
    with pytest.raises(InvalidInputError, match="There is no step 2; the trace has 2 steps"):
        explain_trace(trace, step=2)


def test_calls_that_had_the_device_for_themselves_tell_what_they_take(tmp_path: Path) -> None:
    """Of three products the second runs beside a copy; each has two kernels."""
    shapes = {"Input_Dims": [[8, 16], [16, 32]], "Input_type": ["float", "float"]}
    events = []
    for i, (first_us, second_us) in enumerate([(10.0, 4.0), (15.0, 9.0), (12.0, 4.0)]):
        begin = 1000.0 + 100.0 * i
        events += [
            made.call("aten::mm", begin, 9.0, **shapes),
            made.launch(2 * i, begin + 1.0),
            made.launch(2 * i + 1, begin + 4.0),
            made.kernel("sgemm", 2 * i, begin + 10.0, first_us),
            made.kernel("splitKreduce", 2 * i + 1, begin + 30.0, second_us),
        ]
    copied = made.launch(9, 1160.0, name="cudaMemcpyAsync")
    events += [copied, made.kernel("Memcpy DtoD", 9, 1138.0, 20.0, cat="gpu_memcpy", stream=9)]
    (product,) = [
        one.operator
        for one in explain_trace(_trace(tmp_path, events)).operators
        if one.operator.name == "aten::mm"
    ]
    assert product.time_per_call_s == pytest.approx((14 + 24 + 16) * 1e-6 / 3)
    assert product.alone_s == pytest.approx((14 + 16) * 1e-6 / 2)


def test_runs_are_beside_others_of_their_device_alone() -> None:
    builder = TraceBuilder("kineto")
    #      long      inside    touches   alone      other device  without a time
    for start_ns, duration_ns, device in (
        (0, 100, 0), (20, 10, 0), (100, 10, 0), (200, 10, 0), (205, 50, 1), (210, 0, 0),
    ):  # fmt: skip
        builder.add_kernel(
            "k", start_ns=start_ns, duration_ns=duration_ns, device=device, launch_start_ns=0
        )
    found = beside_others(builder.build().kernels)
    assert found.tolist() == [True, True, False, False, False, False]


def _steps_of_host(*spans_ns: tuple[int, int]) -> TraceBuilder:
    builder = TraceBuilder("kineto")
    builder.steps += [
        TracedStep(name=f"ProfilerStep#{i}", start_ns=start, duration_ns=duration)
        for i, (start, duration) in enumerate(spans_ns)
    ]
    return builder


def test_steps_last_as_long_as_the_device_where_the_host_runs_ahead() -> None:
    builder = _steps_of_host((0, 10), (10, 10), (20, 10))
    for launched_ns, start_ns in ((1, 5), (11, 55), (21, 105)):
        builder.add_kernel(
            "k", start_ns=start_ns, duration_ns=50, device=0, launch_start_ns=launched_ns
        )
    steps = find_steps(builder.build())
    # Kernels end at 55, 105 and 155.
    windows = [(one.start_ns, one.end_ns) for one in steps.windows]
    assert windows == [(0, 55), (55, 105), (105, 155)]
    assert steps.of_kernel.tolist() == [0, 1, 2]


def test_a_kernel_that_stays_for_all_steps_moves_none_of_them() -> None:
    builder = _steps_of_host((0, 10), (10, 10), (20, 10))
    builder.add_kernel("stays", start_ns=3, duration_ns=160, device=0, launch_start_ns=1)
    for launched_ns, start_ns in ((1, 5), (11, 55), (21, 105)):
        builder.add_kernel(
            "k", start_ns=start_ns, duration_ns=50, device=0, launch_start_ns=launched_ns
        )
    windows = [(one.start_ns, one.end_ns) for one in find_steps(builder.build()).windows]
    assert windows == [(0, 55), (55, 105), (105, 163)]


def test_what_lies_between_two_steps_that_wait_for_their_work_is_of_neither() -> None:
    builder = _steps_of_host((0, 30), (100, 30))
    for start_ns in (5, 105):
        builder.add_kernel("k", start_ns=start_ns, duration_ns=20, device=0)
    windows = [(one.start_ns, one.end_ns) for one in find_steps(builder.build()).windows]
    assert windows == [(0, 30), (100, 130)]


def test_steps_are_found_by_repetition_and_said_so(tmp_path: Path) -> None:
    kernels = [f"k{i}" for i in range(10)]
    events = [
        event
        for i in range(40)
        for event in (
            made.launch(i + 1, 10.0 * i),
            made.kernel(kernels[i % 10], i + 1, 10.0 * i + 5, 3.0),
        )
    ]
    found = explain_trace(_trace(tmp_path, events))
    assert (found.steps.found, len(found.steps.windows)) == ("repetition", 4)
    assert found.steps.step_time_s == pytest.approx(100e-6)
    assert any("repeat 4 times" in note for note in found.notes)
    # None of it was launched by an operator, since there is none.
    assert found.joined_share == 0.0
    assert any("holds no operators" in note for note in found.notes)


def test_repetition_needs_two_whole_periods() -> None:
    names = np.array([*range(20)], dtype=np.int32)
    assert repetition(names) is None
    assert repetition(np.concatenate((names, names[:12]))) is None
    assert repetition(np.concatenate((names, names, names))) == 20


def test_a_first_step_may_be_another() -> None:
    names = np.array([*range(20)], dtype=np.int32)
    first = np.array([*range(20, 50)], dtype=np.int32)
    # 30 of 150 entries are of the first step, then 30 of 90.
    assert repetition(np.concatenate((first, *[names] * 6))) == 20
    assert repetition(np.concatenate((first, *[names] * 3))) is None


def _kernels_one_after_the_other(names: list[str]) -> TraceBuilder:
    builder = TraceBuilder("kineto")
    for place, name in enumerate(names):
        builder.add_kernel(name, start_ns=10 * place, duration_ns=8, device=0)
    return builder


@pytest.mark.parametrize(
    ("before", "behind", "found"),
    [
        ([], [], "repetition"),
        # Steps that are cut, at both ends.
        (["k8", "k9"], ["k0", "k1"], "repetition"),
        (["embedding"], [], "whole"),
        ([], ["head"], "whole"),
        # A first step that chooses algorithms.
        ([f"trial {i}" for i in range(12)], [], "repetition"),
    ],
)
def test_layers_have_others_around_them(before: list[str], behind: list[str], found: str) -> None:
    repeated = [f"k{i}" for i in range(10)] * 8
    steps = find_steps(_kernels_one_after_the_other([*before, *repeated, *behind]).build())
    assert steps.found == found
    if found == "repetition":
        assert steps.step_time_s == pytest.approx(100e-9)


def test_heads_differ_from_layers_by_what_they_are_given(tmp_path: Path) -> None:
    events = []
    for place, width in enumerate([8] * 40 + [9]):
        given = {"Input Dims": [[4, width], [width, 4]], "Input type": ["float", "float"]}
        events += [made.call("aten::mm", 10.0 * place, 8.0, **given),
                   made.launch(place + 1, 10.0 * place + 1),
                   made.kernel(f"k{place % 8}", place + 1, 10.0 * place + 5, 3.0)]  # fmt: skip
    assert find_steps(_trace(tmp_path, events)).found == "whole"
    assert find_steps(_trace(tmp_path, events[:-3])).found == "repetition"


def test_calls_repeat_where_nothing_ran_on_a_device(tmp_path: Path) -> None:
    names = [f"aten::op{i}" for i in range(10)]
    events = [made.call(names[i % 10], 10.0 * i, 8.0) for i in range(40)]
    steps = find_steps(_trace(tmp_path, events))
    # The last call ends after 8 us.
    assert [one.duration_s for one in steps.windows] == pytest.approx([100e-6] * 3 + [98e-6])


def test_a_trace_without_marks_or_repetition_is_one_step(tmp_path: Path) -> None:
    events = [event for event in made.training_events(1) if "Profiler" not in event["name"]]
    steps = find_steps(_trace(tmp_path, events))
    assert (steps.found, len(steps.windows)) == ("whole", 1)
    # From the first call at 4 to the end of the copy at 90.
    assert steps.step_time_s == pytest.approx(86e-6)


def test_work_from_before_the_trace_is_named_and_not_counted(tmp_path: Path) -> None:
    events = [*made.training_events(1), made.kernel("late", 999, 1001.0, 9.0)]
    found = explain_trace(_trace(tmp_path, [e for e in events if "Profiler" not in e["name"]]))
    assert "(launched before the trace)" in {one.operator.name for one in found.operators}
    assert found.joined_share == 1.0


def test_fused_kernels_and_graphs_are_named(tmp_path: Path) -> None:
    events = [
        made.call("CompiledRegion", 0.0, 50.0),
        made.launch(1, 5.0, name="cuLaunchKernel"),
        made.kernel("triton_poi_fused_add_relu_0", 1, 20.0, 5.0),
        made.launch(2, 10.0, name="cudaGraphLaunch"),
        made.kernel("gemm", 2, 30.0, 5.0),
        made.launch(3, 15.0, name="cuLaunchKernel"),
        made.kernel("triton_red_fused_mean_1_0d1d2de", 3, 40.0, 7.0),
        made.launch(4, 17.0, name="cuLaunchKernel"),
        made.kernel("triton_poi_fused_add_relu_0", 4, 50.0, 5.0),
    ]
    found = explain_trace(_trace(tmp_path, events))
    told = {one.operator.name: (one.operator.op_class, one.operator.calls)
            for one in found.operators}  # fmt: skip
    # Not one line for the whole range that called them.
    assert told == {
        "triton_poi_fused_add_relu_0": ("fused", 2),
        "triton_red_fused_mean_1_0d1d2de": ("fused", 1),
        "(launched as a graph)": ("other", 1),
    }
    assert found.joined_share == 1.0


def test_a_trace_of_a_cpu_counts_calls(tmp_path: Path) -> None:
    events = [event for event in made.training_events(1) if event["cat"] == "cpu_op"]
    found = explain_trace(_trace(tmp_path, events))
    times = {one.operator.name: one.operator.time_s for one in found.operators}
    # The outermost priced call counts, not what it calls.
    assert times == {"aten::matmul": pytest.approx(10e-6), "aten::mm": pytest.approx(8e-6)}
    assert any("Nothing ran on a device" in note for note in found.notes)


def test_an_unknown_device_is_said_and_can_be_told(tmp_path: Path) -> None:
    trace = _trace(tmp_path, made.training_events(1), deviceProperties=[])
    found = explain_trace(trace)
    assert found.accelerator is None
    assert all(one.roofline_share is None for one in found.operators)
    assert any("--accelerator NAME says which it was" in note for note in found.notes)
    told = explain_trace(trace, accelerator=Catalog.default().get("MI300X"))
    assert told.accelerator is not None and told.accelerator.name == "MI300X"
    assert not any("--accelerator" in note for note in told.notes)


def test_steps_of_a_trace_without_launches_hold_what_ran_in_them(tmp_path: Path) -> None:
    events = [e for e in made.training_events() if e["cat"] not in ("cuda_runtime", "cuda_driver")]
    found = explain_trace(_trace(tmp_path, events))
    assert (found.steps.found, len(found.steps.windows)) == ("marked", 2)
    # Product, its gradient, all-reduce and copy of each step; the first two are nobody's.
    assert found.steps.of_kernel.tolist() == [0] * 4 + [1] * 4
    assert found.device_time_s == pytest.approx(2 * (10 + 20 + 25 + 5) * 1e-6)
    assert found.joined_share == pytest.approx(30 / 60)


def test_operators_tell_when_their_kernels_were_launched(tmp_path: Path) -> None:
    late = made.kernel("add", 1, 1150.0, 5.0)
    late["args"]["External id"] = 5
    events = [
        made.step_mark(1, 1000.0, 100.0), made.step_mark(2, 1100.0, 100.0),
        made.call("aten::add", 1010.0, 5.0, External_id=5), late,
    ]  # fmt: skip
    # It ran in the second step for a call of the first.
    assert find_steps(_trace(tmp_path, events)).of_kernel.tolist() == [0]


def test_device_time_outside_of_the_steps_is_said(tmp_path: Path) -> None:
    """As of a step that was launched before the trace began and ran on meanwhile."""
    events = made.training_events()
    within = explain_trace(_trace(tmp_path, events))
    assert not any("outside of its steps" in note for note in within.notes)
    assert within.trace_device_time_s == pytest.approx(within.device_time_s)
    found = explain_trace(_trace(tmp_path, [*events, made.kernel("early", 99, 1001.0, 40.0)]))
    # Two steps of 60 us, and 40 us beside them.
    assert found.device_time_s == pytest.approx(120e-6)
    assert found.trace_device_time_s == pytest.approx(160e-6)
    assert any(note.startswith("25.0 % of the device time") for note in found.notes)


def test_a_large_number_of_a_device_takes_no_memory(tmp_path: Path) -> None:
    far = made.kernel("gemm", 1, 20.0, 5.0, device=2**31 - 1)
    devices = [{"id": number, "name": name} for number, name in ((0, "x"), (2**31 - 1, "Tesla T4"))]
    trace = _trace(tmp_path, [made.call("aten::mm", 0.0, 9.0), far], deviceProperties=devices)
    tracemalloc.start()
    found = main_device(trace)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None and found.accelerator == "T4"
    assert most_bytes < 2**20


def test_every_run_of_a_profile_is_a_step() -> None:
    builder = TraceBuilder("onnxruntime")
    for start_ns in range(0, 3_000 * 50, 50):
        builder.steps.append(TracedStep(name="run", start_ns=start_ns, duration_ns=50))
        for at_ns in range(start_ns, start_ns + 50):
            builder.add_kernel("node", start_ns=at_ns, duration_ns=1, launch_start_ns=at_ns)
    trace = builder.build()
    steps = find_steps(trace)
    assert (len(steps.windows), steps.step_time_s) == (3_000, pytest.approx(50e-9))


def test_calls_of_a_trace_without_devices_name_their_forward_calls(tmp_path: Path) -> None:
    events = [e for e in made.training_events() if e["cat"] in ("cpu_op", "user_annotation")]
    found = explain_trace(_trace(tmp_path, events))
    by = {one.operator.phase: one.operator for one in found.operators}
    assert (by[Phase.FORWARD].name, by[Phase.FORWARD].forward) == ("aten::matmul", "")
    assert (by[Phase.BACKWARD].name, by[Phase.BACKWARD].forward) == ("aten::mm", "aten::mm")
    # Two steps, 8 us each.
    assert (by[Phase.BACKWARD].calls, by[Phase.BACKWARD].time_s) == (2, pytest.approx(16e-6))


def test_more_arithmetic_than_the_device_can_do_is_said(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    # 2 x 8,192 cubed over 1 ms are 1.1e15 FLOP/s; an H100 does 67e12 of fp32.
    shapes = {"Input_Dims": [[8192, 8192]] * 2, "Input_type": ["float"] * 2}
    product = made.call("aten::mm", 1.0, 9.0, **shapes)

    def told(dur: float) -> list[str]:
        events = [product, made.launch(1, 2.0), made.kernel("sgemm", 1, 20.0, dur)]
        notes = explain_trace(_trace(tmp_path, events)).notes
        return [note for note in notes if "more than the peak" in note]

    assert told(1e3)[0].startswith("1 operators computed more than the peak of a H100-SXM5-80GB")
    assert not told(2e4)


def test_traffic_beyond_memory_is_that_of_caches(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    # 2 x 4 MiB over 1 us are 8.4e12 B/s, 2.5 times what memory gives, and 1e12 FLOP/s.
    add = made.call("aten::relu", 1.0, 9.0, Input_Dims=[[1024, 1024]], Input_type=["float"])
    events = [add, made.launch(1, 2.0), made.kernel("relu", 1, 20.0, 1.0)]
    found = explain_trace(_trace(tmp_path, events))
    assert found.operators[0].roofline_share == pytest.approx(2.5, rel=0.02)
    assert not any("peak" in note for note in found.notes)


def test_what_ran_behind_launched_work_was_not_launched_before_the_trace(tmp_path: Path) -> None:
    """Its call is lacking all the same, so that nobody knows which operator it belongs to."""
    events = [
        made.call("aten::mm", 1000.0, 9.0), made.launch(1, 1002.0),
        made.kernel("early", 98, 1001.0, 40.0), made.kernel("sgemm", 1, 1050.0, 30.0),
        made.kernel("late", 99, 1090.0, 30.0),
    ]  # fmt: skip
    found = explain_trace(_trace(tmp_path, events))
    by = {one.operator.name: one.operator.joined for one in found.operators}
    assert by == {"(launched before the trace)": False, "aten::mm": True, "late": False}
    assert found.joined_share == pytest.approx(0.5)


def test_devices_of_several_kinds_are_said(tmp_path: Path) -> None:
    devices = [made.H100, {"id": 1, "name": "Tesla T4"}, {"id": 2, "name": "Tesla V100-SXM2-16GB"}]
    here = made.training_events(1)
    there = made.kernel("gemm", 99, 1050.0, 5.0, device=1)
    alone = explain_trace(_trace(tmp_path, here, deviceProperties=devices))
    assert not any("several kinds" in note for note in alone.notes)
    both = explain_trace(_trace(tmp_path, [*here, there], deviceProperties=devices))
    assert any("(H100-SXM5-80GB as device 0, T4 as device 1)" in note for note in both.notes)


def test_a_part_of_a_device_is_not_the_device(tmp_path: Path) -> None:
    part = made.H100 | {"totalGlobalMem": 10 * 2**30, "numSms": 16}
    found = explain_trace(_trace(tmp_path, made.training_events(1), deviceProperties=[part]))
    assert found.accelerator is None
    (note,) = [note for note in found.notes if "--accelerator" in note]
    assert "gives it 10.0 GiB, which that device does not have: a part of one (MIG" in note


def test_events_that_stand_twice_are_said(tmp_path: Path) -> None:
    events = made.training_events()
    once, twice = (explain_trace(_trace(tmp_path, events * times)) for times in (1, 2))
    assert not any("beside others" in note for note in once.notes)
    # Of a step 20..30, 40..60, 55..80 and 85..90 beside their doubles, the two in the middle for 5
    # beside each other: 65 of 120 us.
    assert any(note.startswith("During 54 % of their time") for note in twice.notes)


def test_under_autocast_the_call_with_the_operands_as_cast_counts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    full = {"Input_Dims": [[8, 16], [16, 32]], "Input_type": ["float", "float"]}
    half = full | {"Input_type": ["c10::Half", "c10::Half"]}
    cast = {"Input_Dims": [[16, 32], [16, 32], []], "Input_type": ["c10::Half", "float", "Scalar"],
            "Concrete_Inputs": ["", "", "False"]}  # fmt: skip
    events = [
        made.call("aten::mm", 1.0, 30.0, **full),
        made.call("aten::copy_", 3.0, 4.0, **cast), made.launch(1, 4.0),
        made.kernel("copy_kernel", 1, 20.0, 5.0),
        made.call("aten::mm", 10.0, 9.0, **half), made.launch(2, 12.0),
        made.kernel("hgemm", 2, 30.0, 10.0),
    ]  # fmt: skip
    found = explain_trace(_trace(tmp_path, events))
    product, copied = found.operators
    # 2 x 8 x 16 x 32 over the 10 us of the product, without the 5 us of the cast.
    assert (product.operator.name, product.precision) == ("aten::mm", Precision.FP16)
    assert product.flops_per_s == pytest.approx(8192 / 10e-6)
    assert (copied.operator.name, copied.operator.time_s) == ("aten::copy_", pytest.approx(5e-6))


def test_kernels_whose_call_is_lost_count_in_the_step_that_they_ran_in(tmp_path: Path) -> None:
    """As of a trace whose profiler dropped calls: its operators took longer than is joined."""
    lost = made.kernel("lost", 98, 1062.0, 20.0)
    found = explain_trace(_trace(tmp_path, [*made.training_events(), lost]))
    # It ran behind the product, before the next step began; 60 us of each step are joined.
    assert found.device_time_s == pytest.approx(140e-6)
    assert found.joined_share == pytest.approx(120 / 140)
    assert not any("outside of its steps" in note for note in found.notes)

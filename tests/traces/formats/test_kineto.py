"""Traces of torch.profiler: what is read, and what is refused."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import made_traces as made
import numpy as np
import pytest

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.kineto.arguments import kineto_arguments
from perfmodel.traces.formats.kineto.reader import version_text
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import PHASES, KernelKind, Trace
from perfmodel.types import Phase


def _read(folder: Path, events: list[made.Event], **members: Any) -> Trace:
    return read_trace(made.write_trace(folder / "trace.json", events, **members))


def test_a_training_trace_is_read(tmp_path: Path) -> None:
    distributed = {"backend": "nccl", "rank": 3, "world_size": 8, "nccl_version": "2.21.5"}
    path = made.write_trace(
        tmp_path / "named.anything.gz", made.training_events(), distributedInfo=distributed
    )
    trace = read_trace(path)
    assert (trace.format, trace.rank, trace.world_size, trace.complete) == ("kineto", 3, 8, True)
    assert dict(trace.software) == {"cuda": "12.4", "collectives": "nccl", "nccl": "2.21.5"}
    assert trace.devices[0].accelerator == "H100-SXM5-80GB"
    assert [step.name for step in trace.steps] == ["ProfilerStep#1", "ProfilerStep#2"]
    # Times count from the first event, the mark of the first step at 1000 us.
    assert [step.start_ns for step in trace.steps] == [0, 100_000]
    kernels = trace.kernels
    assert kernels.start_ns[:4].tolist() == [20_000, 40_000, 55_000, 85_000]
    assert kernels.duration_ns[:4].tolist() == [10_000, 20_000, 25_000, 5_000]
    kinds = [KernelKind(kind).name for kind in kernels.kind[:4].tolist()]
    assert kinds == ["COMPUTE", "COMPUTE", "COLLECTIVE", "COPY"]
    assert kernels.size_bytes[3] == 64


def test_kernels_belong_to_the_innermost_call_and_calls_to_phases(tmp_path: Path) -> None:
    trace = _read(tmp_path, made.training_events(1))
    by = [trace.name_of(row) if row >= 0 else "" for row in trace.kernels.operator.tolist()]
    # The all-reduce and the copy were launched outside of every operator.
    assert by == ["aten::mm", "aten::mm", "", ""]
    forward, backward = trace.kernels.operator[:2].tolist()
    assert trace.name_of(int(trace.operators.parent[forward])) == "aten::matmul"
    assert PHASES[trace.operators.phase[forward]] is Phase.FORWARD
    assert PHASES[trace.operators.phase[backward]] is Phase.BACKWARD
    arguments = trace.arguments_of(forward)
    assert arguments is not None
    assert [tensor.shape for tensor in arguments.tensors] == [(8, 16), (16, 32)]
    assert trace.kernels.launch_start_ns.tolist() == [7_000, 33_000, 45_000, 82_000]


def test_external_ids_stand_in_for_missing_calls_of_the_runtime(tmp_path: Path) -> None:
    event = made.call("aten::mm", 1.0, 9.0)
    event["args"]["External id"] = 77
    kernel = made.kernel("gemm", 5, 20.0, 3.0)
    kernel["args"]["External id"] = 77
    other = made.kernel("gemm", 6, 30.0, 3.0)
    other["args"]["External id"] = 0
    trace = _read(tmp_path, [event, kernel, other])
    assert trace.kernels.operator.tolist() == [0, -1]
    assert trace.kernels.launch_start_ns.tolist() == [-1, -1]


def test_graph_launches_are_marked(tmp_path: Path) -> None:
    events = [made.launch(1, 5.0, name="cudaGraphLaunch"), made.kernel("gemm", 1, 9.0, 3.0),
              made.kernel("relu", 1, 12.0, 3.0)]  # fmt: skip
    assert _read(tmp_path, events).kernels.graph.tolist() == [True, True]


def test_words_of_the_first_versions_are_understood(tmp_path: Path) -> None:
    events = json.loads(
        json.dumps(made.training_events(1))
        .replace('"cpu_op"', '"Operator"')
        .replace('"cuda_runtime"', '"Runtime"')
        .replace('"kernel"', '"Kernel"')
        .replace('"gpu_memcpy"', '"Memcpy"')
        .replace('"Input Dims"', '"Input dims"')
    )
    old, new = _read(tmp_path, events), _read(tmp_path, made.training_events(1))
    assert old.kernels.operator.tolist() == new.kernels.operator.tolist()
    assert old.kernels.kind.tolist() == new.kernels.kind.tolist()
    assert old.arguments == new.arguments


def test_arguments_of_several_kinds() -> None:
    found = kineto_arguments(
        (
            [[2, 3], [[4], [5, 6]], [], [], [1]],
            ["c10::BFloat16", "TensorList", "float", "Scalar", "unheard::Type"],
            ["", "", "", "0.5", ""],
            [[3, 1], [[1], [6, 1]], [], [], [1]],
        )
    )
    tensor, several, scalar, number, unheard = found.inputs
    assert (tensor.tensors[0].dtype, tensor.tensors[0].strides) == ("bfloat16", (3, 1))
    assert [one.shape for one in several.tensors] == [(4,), (5, 6)]
    # An empty shape is that of a scalar tensor where there is the type of a tensor.
    assert (len(scalar.tensors), len(number.tensors), number.value) == (1, 0, "0.5")
    assert unheard.tensors[0].dtype == ""


def test_kinds_of_values_of_the_first_versions_are_no_tensors() -> None:
    kinds = ["float", "", "GenericList", "Bool", "Double", "Int"]
    found = kineto_arguments(([[2, 3], [], [], [], [], []], kinds, None, None))
    assert [len(one.tensors) for one in found.inputs] == [1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("word", "value", "text"),
    [("cuda", 12090, "12.9"), ("hip", 60443483, "6.4.43483"), ("hip", "7.0", "7.0")],
)
def test_versions_are_unpacked(word: str, value: object, text: str) -> None:
    assert version_text(word, value) == text


def test_a_cut_trace_is_read_and_says_so(tmp_path: Path) -> None:
    whole = made.write_trace(tmp_path / "whole.json", made.training_events())
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole.read_bytes()[:-900])
    trace = read_trace(cut)
    assert not trace.complete
    assert 0 < len(trace.kernels) < 8
    assert trace.notes[0].startswith("The trace is cut: the file ends in the middle")


def _with(change: dict[str, Any]) -> list[made.Event]:
    return [*made.training_events(1), {**made.kernel("bad", 99, 50.0, 1.0), **change}]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dur": -1e300}, "the duration -1e\\+300; expected microseconds"),
        ({"ts": -1.0}, "the start -1.0"),
        ({"ts": 1e300}, "1e\\+300"),
        ({"ts": "soon"}, "the start soon"),
        ({"dur": {"a": 1}}, "expected microseconds"),
        ({"ts": None}, "the start None"),
        ({"name": 5}, "an event without a name"),
    ],
)
def test_times_and_names_that_cannot_be_are_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        _read(tmp_path, _with(change))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no trace", "no known trace format"),
        (b'{"schemaVersion": 1, "traceEvents": [7]}', "no object"),
        (b'{"schemaVersion": 1, "traceEvents": []}', "holds 0 events"),
        (
            b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "v8", "name": "a"}]}',
            "none of them an operator or a kernel: 1 v8",
        ),
        (b'{"schemaVersion": 1, "deviceProperties": [', "no array 'traceEvents'"),
    ],
)
def test_what_is_no_such_trace_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(InvalidTraceError, match=reason):
        read_trace(path)


def test_too_many_events_are_refused(tmp_path: Path) -> None:
    path = made.write_trace(tmp_path / "trace.json", made.training_events())
    with pytest.raises(InvalidTraceError, match="more than 10 events"):
        read_trace(path, TraceLimits(events=10))


def test_too_many_different_arguments_are_left_out_and_said(tmp_path: Path) -> None:
    path = made.write_trace(tmp_path / "trace.json", made.training_events())
    trace = read_trace(path, TraceLimits(arguments_bytes=10))
    assert trace.arguments == ()
    assert trace.notes == (
        "Arguments of 6 operator calls were left out: the trace has too many different ones.",
    )


#: What replaces a member of an event, or of its arguments.
_ODD: tuple[Any, ...] = (
    None, -1, 2**63, 1e308, "x", [], [[[]]], {}, True, [1, "a", None], {"a": {"b": []}}, -0.5,
)  # fmt: skip


def test_damaged_events_are_read_or_refused_and_never_crash(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = tmp_path / "trace.json"
    refused = 0
    for _ in range(300):
        events = copy.deepcopy(made.training_events(1))
        for event in rng.sample(events, 2):
            where = event["args"] if rng.random() < 0.5 and event["args"] else event
            where[rng.choice(sorted(where))] = rng.choice(_ODD)
        made.write_trace(path, events)
        try:
            trace = read_trace(path)
        except InvalidTraceError:
            refused += 1
        else:
            assert np.all(trace.kernels.duration_ns >= 0)
    assert 0 < refused < 300


def test_damaged_bytes_are_read_or_refused_and_never_crash(tmp_path: Path) -> None:
    rng = random.Random(1)
    whole = made.write_trace(tmp_path / "whole.json.gz", made.training_events()).read_bytes()
    plain = json.dumps(made.document(made.training_events())).encode()
    path = tmp_path / "trace"
    for number in range(300):
        content = bytearray(plain if number % 2 else whole)
        for _ in range(rng.randint(1, 4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content[: rng.randint(1, len(content))])
        try:
            read_trace(path)
        except InvalidTraceError as error:
            assert error.message


def test_steps_are_marked_by_operators_in_traces_of_old_versions(tmp_path: Path) -> None:
    events = made.training_events()
    for event in events:
        event["cat"] = {"user_annotation": "Operator"}.get(event["cat"], event["cat"])
    trace = _read(tmp_path, events)
    assert [step.name for step in trace.steps] == ["ProfilerStep#1", "ProfilerStep#2"]
    assert "ProfilerStep#1" not in {trace.name_of(row) for row in range(len(trace.operators))}


def test_the_events_alone_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(json.dumps(made.training_events()))
    trace = read_trace(path)
    assert (trace.format, len(trace.steps), len(trace.kernels)) == ("kineto", 2, 8)


def test_ids_in_quotes_join_as_well(tmp_path: Path) -> None:
    events = made.training_events(1)
    for event in events:
        if "correlation" in event["args"]:
            event["args"]["correlation"] = str(event["args"]["correlation"])
    assert _read(tmp_path, events).kernels.launch_start_ns.tolist() == [
        7_000, 33_000, 45_000, 82_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("category", "name"),
    [("xpu_runtime", "urEnqueueKernelLaunch"), ("xpu_driver", "zeCommandListAppendMemoryCopy"),
     ("privateuse1_runtime", "synLaunch"), ("mtia_runtime", "job_prep_and_submit_for_execution")],
)  # fmt: skip
def test_calls_of_every_runtime_launch(tmp_path: Path, category: str, name: str) -> None:
    launched = made.launch(1, 5.0, name=name) | {"cat": category}
    events = [made.call("aten::add", 0.0, 9.0), launched, made.kernel("k", 1, 20.0, 5.0)]
    trace = _read(tmp_path, events)
    assert trace.name_of(int(trace.kernels.operator[0])) == "aten::add"


def test_kernels_of_merged_processes_are_not_joined_by_ids_that_both_use(tmp_path: Path) -> None:
    events = []
    for process in (1, 2):
        events += [
            made.call(f"aten::add{process}", 0.0, 9.0) | {"pid": process},
            made.launch(7, 5.0) | {"pid": process},
            made.launch(70 + process, 6.0) | {"pid": process},
            made.kernel("shared", 7, 20.0, 5.0),
            made.kernel("own", 70 + process, 30.0, 5.0),
        ]
    trace = _read(tmp_path, events)
    by = [trace.name_of(row) if row >= 0 else "" for row in trace.kernels.operator.tolist()]
    assert by == ["", "aten::add1", "", "aten::add2"]
    assert any("2 kernels bear ids" in note for note in trace.notes)


def test_a_step_that_two_processes_mark_is_one(tmp_path: Path) -> None:
    marks = [
        made.step_mark(1, 1000.0, 90.0),
        made.step_mark(1, 1005.0, 95.0) | {"pid": 2},
        made.step_mark(2, 1100.0, 90.0),
    ]
    trace = _read(tmp_path, [*marks, made.call("aten::add", 1001.0, 5.0)])
    # From the first begin at 1000 to the last end at 1100; then to 1190.
    assert [(step.start_ns, step.duration_ns) for step in trace.steps] == [
        (0, 100_000), (100_000, 90_000),
    ]  # fmt: skip


#: Categories of newer traces and of those of PyTorch 1.8.
_OLD = {"cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime",
        "kernel": "Kernel", "gpu_memcpy": "Memcpy"}  # fmt: skip


def test_the_events_alone_of_an_old_version_are_read_whatever_stands_first(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    events = made.training_events()
    for event in events:
        event["cat"] = _OLD.get(event["cat"], event["cat"])
    name = {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "python"}}
    path.write_text(json.dumps([name, *events]))
    assert len(read_trace(path).kernels) == 8


def test_bandwidths_that_are_no_numbers_are_passed_over(tmp_path: Path) -> None:
    """Kineto of PyTorch 1.8 divides the bytes of a copy by its time, which may be 0."""
    events = [
        made.call("aten::copy_", 1.0, 9.0),
        made.kernel("Memcpy HtoD (Pageable -> Device)", 5, 20.0, 0.0, cat="Memcpy"),
    ]
    events[1]["args"]["memory bandwidth (GB/s)"] = "INF"
    path = made.write_trace(tmp_path / "trace.json", events)
    path.write_text(path.read_text().replace('"INF"', "inf"))
    assert read_trace(path).kernels.duration_ns.tolist() == [0]


def test_another_version_of_the_format_is_said(tmp_path: Path) -> None:
    events = made.training_events(1)
    assert not _read(tmp_path, events, schemaVersion=1).notes
    assert "of version 2 of its format" in _read(tmp_path, events, schemaVersion=2).notes[0]


def test_kernels_of_old_amd_traces_tell_device_and_queue_as_their_lane(tmp_path: Path) -> None:
    """PyTorch before 2.4 wrote no more of them than the external id."""
    kernel = made.kernel("Cijk_Ailk", 0, 20.0, 3.0) | {"pid": 2, "tid": 1}
    kernel["args"] = {"External id": 77}
    trace = _read(tmp_path, [made.call("aten::mm", 1.0, 9.0, External_id=77), kernel])
    kernels = trace.kernels
    assert (kernels.device.tolist(), kernels.stream.tolist()) == ([2], [1])
    assert kernels.operator.tolist() == [0]


def test_times_in_quotes_are_read(tmp_path: Path) -> None:
    events = made.training_events(1)
    for event in events:
        event["ts"], event["dur"] = str(event["ts"]), str(event["dur"])
    assert _read(tmp_path, events).kernels.start_ns.tolist() == [20_000, 40_000, 55_000, 85_000]


def test_calls_that_did_not_end_are_left_out(tmp_path: Path) -> None:
    """PyTorch before 1.13 wrote 0 for their ends."""
    events = [*made.training_events(1), made.call("record_function", 1003.0, -1003.0)]
    trace = _read(tmp_path, events)
    assert trace.complete
    assert "record_function" not in trace.names
    assert "1 calls and 0 kernels, copies or fills were left out" in trace.notes[0]


def test_a_trace_with_kernels_of_no_time_is_not_whole(tmp_path: Path) -> None:
    events = made.training_events()
    untimed = [
        made.kernel("lost", 98, 1050.0, -1050.0),
        made.kernel("lost", 99, 0.0, 0.0),
        {key: value for key, value in made.kernel("lost", 97, 1050.0, 1.0).items() if key != "dur"},
    ]
    trace, without = _read(tmp_path, [*events, *untimed]), _read(tmp_path, events)
    assert not trace.complete
    assert trace.notes[0].endswith("Sums are too small.")
    # Times still count from the first event.
    assert trace.kernels.start_ns.tolist() == without.kernels.start_ns.tolist()


def test_kernels_say_themselves_that_they_are_part_of_a_graph(tmp_path: Path) -> None:
    kernel = made.kernel("gemm", 3, 9.0, 3.0)
    kernel["args"] |= {"graph id": 7, "graph node id": 2}
    other = made.kernel("gemm", 4, 19.0, 3.0)
    other["args"]["graph id"] = 0
    assert _read(tmp_path, [kernel, other]).kernels.graph.tolist() == [True, False]


def test_collectives_are_known_by_what_they_and_their_callers_tell(tmp_path: Path) -> None:
    told = made.kernel("vendor_sum", 1, 50.0, 3.0)
    told["args"]["Collective name"] = "allreduce"
    events = [
        told,
        made.call("record_param_comms", 0.0, 20.0),
        made.launch(2, 1.0), made.kernel("vendor_ring", 2, 60.0, 3.0),
        # What a collective computes beside is an operator of its own.
        made.call("aten::mul", 5.0, 4.0), made.launch(3, 6.0), made.kernel("mul", 3, 70.0, 3.0),
    ]  # fmt: skip
    kinds = [KernelKind(kind).name for kind in _read(tmp_path, events).kernels.kind.tolist()]
    assert kinds == ["COLLECTIVE", "COLLECTIVE", "COMPUTE"]


def test_what_is_of_no_known_category_is_said(tmp_path: Path) -> None:
    """Unitrace calls kernels gpu_op, and profilers of NPUs give theirs no category."""
    events = [
        *made.training_events(1),
        made.kernel("other", 1, 20.0, 5.0) | {"cat": "gpu_op"},
        made.kernel("nameless", 1, 30.0, 5.0) | {"cat": None},
        made.kernel("frame", 1, 30.0, 5.0) | {"cat": "python_function"},
    ]
    (note,) = _read(tmp_path, events).notes
    assert "left out: 1 gpu_op, 1 without a category." in note


def test_ranks_in_quotes_are_read(tmp_path: Path) -> None:
    told = {"rank": "1", "world_size": "8"}
    trace = _read(tmp_path, made.training_events(1), distributedInfo=told)
    assert (trace.rank, trace.world_size) == (1, 8)

"""Profiles of ONNX Runtime, made up and real."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from made_up_profiles import ORT_PROFILE
from onnx_files import one_node, weight

from perfmodel.errors import InvalidTraceError
from perfmodel.profilers.steps.onnxruntime import profile_kernels
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import TracedTensor


def _written(folder: Path, events: Any) -> Path:
    path = folder / "profile.json"
    path.write_text(json.dumps(events))
    return path


def test_nodes_are_operators_and_runs_are_steps(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, ORT_PROFILE))
    assert trace.name_of(0) == "Conv"
    assert trace.names[trace.kernels.name[0]] == "conv"
    # The run opens at 100 us, the node at 110.
    assert trace.kernels.start_ns.tolist() == [10_000]
    assert trace.kernels.duration_ns.tolist() == [30_000]
    assert [(step.start_ns, step.duration_ns) for step in trace.steps] == [(0, 50_000)]
    arguments = trace.arguments_of(0)
    assert arguments is not None
    assert arguments.tensors == (
        TracedTensor(shape=(1, 3, 8, 8), dtype="float32"),
        TracedTensor(shape=(4, 3, 3, 3), dtype="float32"),
    )


def test_nodes_of_a_gpu_have_launched_and_its_kernels_have_run(tmp_path: Path) -> None:
    events = copy.deepcopy(ORT_PROFILE)
    events[1]["args"]["provider"] = "CUDAExecutionProvider"
    events.insert(
        2,
        {"cat": "Kernel", "pid": -1, "tid": -1, "dur": 80, "ts": 125, "ph": "X",
         "name": "cudnn_conv_fprop",
         "args": {"stream": "7", "parent_name": "conv_kernel_time", "op_name": "Conv"}},
    )  # fmt: skip
    trace = read_trace(_written(tmp_path, events))
    assert trace.kernels.duration_ns.tolist() == [80_000]
    # Launched by the node, which begins 10 us after the run.
    assert trace.kernels.launch_start_ns.tolist() == [10_000]
    assert trace.kernels.operator.tolist() == [0]
    assert trace.kernels.stream.tolist() == [7]
    assert "those of launching them" in trace.notes[0]


def test_kernels_behind_all_runs_find_theirs_by_time(tmp_path: Path) -> None:
    """As ONNX Runtime wrote them before it put them behind their nodes."""
    events = copy.deepcopy(ORT_PROFILE)
    events[1]["args"]["provider"] = "CUDAExecutionProvider"
    again = [{**event, "ts": event["ts"] + 1000} for event in events[1:3]]
    kernels = [
        {"cat": "Kernel", "pid": -1, "tid": -1, "dur": 5, "ts": start, "ph": "X", "name": "conv",
         "args": {"stream": "7", "parent_name": "conv_kernel_time"}}
        for start in (115, 1115)
    ]  # fmt: skip
    trace = read_trace(_written(tmp_path, [*events, *again, *kernels]))
    assert trace.kernels.operator.tolist() == [0, 1]
    # Nodes begin at 110 and 1110 us, the first run at 100 us.
    assert trace.kernels.launch_start_ns.tolist() == [10_000, 1_010_000]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dur": -1}, "expected whole microseconds"),
        ({"dur": 2**63}, "expected whole microseconds"),
        ({"ts": 1.5}, "expected whole microseconds"),
        ({"args": {}}, "not as ONNX Runtime writes it"),
        ({"args": []}, "not as ONNX Runtime writes it"),
        ({"cat": "Session"}, "no run of a node"),
    ],
)
def test_an_event_that_cannot_be_is_refused(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    events = copy.deepcopy(ORT_PROFILE)
    events[1].update(change)
    with pytest.raises(InvalidTraceError, match=reason):
        read_trace(_written(tmp_path, events))


def test_a_profile_that_was_not_ended_is_refused(tmp_path: Path) -> None:
    path = _written(tmp_path, ORT_PROFILE)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InvalidTraceError, match="end_profiling"):
        read_trace(path)


def test_a_real_profile_is_read_as_it_is(tmp_path: Path) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "real")
    session = onnxruntime.InferenceSession(
        _product(), sess_options=options, providers=["CPUExecutionProvider"]
    )
    for _ in range(3):
        session.run(None, FEEDS)
    path = Path(session.end_profiling())
    trace = read_trace(path)
    events = json.loads(path.read_text())
    nodes = [one for one in events if one["name"].endswith("_kernel_time")]
    assert int(trace.kernels.duration_ns.sum()) == 1000 * sum(one["dur"] for one in nodes)
    assert len(trace.steps) == 3
    assert {trace.name_of(row) for row in range(len(trace.operators))} == {"MatMul"}


def test_the_profiler_reads_its_runs_through_it() -> None:
    runs, shares = profile_kernels(_product(), FEEDS, threads=1, runs=2)
    # One provider alone needs no word.
    assert shares == {}
    assert [[kernel.op_type for kernel in run] for run in runs] == [["MatMul"], ["MatMul"]]
    assert all(kernel.name == "node" and kernel.time_s >= 0 for run in runs for kernel in run)


FEEDS = {"x0": np.ones((8, 16), dtype=np.float32)}


def _product() -> Any:
    model = onnx.load_from_string(one_node("MatMul", [(8, 16)], initializers=[weight("w", 16, 4)]))
    # Newer onnx writes a version of its format that onnxruntime does not take yet.
    model.ir_version = 8
    return model.SerializeToString()


def test_nodes_inside_of_a_loop_are_not_counted_twice(tmp_path: Path) -> None:
    def node(name: str, operator: str, ts: int, dur: int, tid: int = 1) -> dict[str, Any]:
        facts = {"op_name": operator, "provider": "CPUExecutionProvider"}
        return {"cat": "Node", "pid": 1, "tid": tid, "dur": dur, "ts": ts, "ph": "X",
                "name": f"{name}_kernel_time", "args": facts}  # fmt: skip

    events = [
        {"cat": "Session", "pid": 1, "tid": 1, "dur": 9, "ts": 1, "ph": "X", "name": "load"},
        node("before", "Relu", 90, 5),
        node("other_thread", "Relu", 112, 7, tid=2),
        node("inside", "MatMul", 110, 20),
        node("then", "Relu", 131, 4),
        node("if", "If", 130, 6),
        node("inside", "MatMul", 140, 20),
        node("loop", "Loop", 100, 70),
        {"cat": "Session", "pid": 1, "tid": 1, "dur": 90, "ts": 85, "ph": "X", "name": "model_run"},
    ]
    trace = read_trace(_written(tmp_path, events))
    names = [trace.names[name] for name in trace.kernels.name]
    own_us = dict(zip(names, (trace.kernels.duration_ns // 1_000).tolist(), strict=True))
    # If: 6 - 4; Loop: 70 - 20 - 6 - 20, whatever another thread did meanwhile.
    assert own_us == {"before": 5, "other_thread": 7, "inside": 20, "then": 4, "if": 2, "loop": 24}
    assert int(trace.operators.duration_ns.max()) == 70_000


def test_a_profile_with_its_members_in_another_order_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sorted.json"
    path.write_text(json.dumps(ORT_PROFILE, sort_keys=True))
    assert read_trace(path).format == "onnxruntime"


def test_a_second_session_behind_the_first_is_said_to_be_left_out(tmp_path: Path) -> None:
    path = _written(tmp_path, ORT_PROFILE)
    path.write_text(2 * path.read_text())
    trace = read_trace(path)
    assert (len(trace.steps), len(trace.notes)) == (1, 1)
    assert "What follows the trace was left out" in trace.notes[0]


def test_runs_of_several_threads_at_once_are_said(tmp_path: Path) -> None:
    run = ORT_PROFILE[-1]
    # One runs from 100 to 150 us; another begins when it has ended, or 10 us before.
    for start, overlap in ((150, False), (140, True)):
        trace = read_trace(_written(tmp_path, [*ORT_PROFILE, run | {"ts": start, "tid": 2}]))
        assert any("Runs overlap" in note for note in trace.notes) == overlap

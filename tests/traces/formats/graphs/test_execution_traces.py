"""Execution traces: PyTorch's JSON, Chakra's protobuf and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up_profiles import chakra_et, chakra_json, execution_trace, message, varint

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import PHASES, Trace, TracedTensor
from perfmodel.types import Phase

PRODUCT = (
    TracedTensor(shape=(2, 3), dtype="float32"),
    TracedTensor(shape=(3, 4), dtype="float16"),
)


def _read(folder: Path, content: bytes | dict[str, Any], name: str = "trace.json") -> Trace:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return read_trace(path)


@pytest.mark.parametrize("schema", ["1.0.1", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4"])
def test_calls_have_shapes_callers_and_no_times(tmp_path: Path, schema: str) -> None:
    trace = _read(tmp_path, execution_trace(schema))
    assert [trace.name_of(row) for row in range(2)] == ["aten::mm", "step"]
    # Callees stand before their callers in the file.
    assert trace.operators.parent.tolist() == [1, -1]
    assert trace.operators.sequence.tolist() == [4, -1]
    assert trace.operators.duration_ns.tolist() == [-1, -1]
    arguments = trace.arguments_of(0)
    assert arguments is not None
    assert arguments.tensors == PRODUCT
    assert arguments.outputs == (TracedTensor(shape=(2, 4), dtype="float32"),)
    assert [device.index for device in trace.devices] == [0]
    assert trace.notes[0].startswith("Calls with their shapes and no times")


def test_lists_of_tensors_strides_and_values(tmp_path: Path) -> None:
    document = execution_trace("1.1.1-chakra.0.0.4")
    document["nodes"][0]["inputs"] = {
        "values": [[[1, 2, 0, 6, 4, "cuda:1"], [3, 4, 0, 2, 4, "cuda:1"]], 1, "<None>", [1, 2]],
        "shapes": [[[2, 3], [2, 1]], [], [], [[], []]],
        "types": ["GenericList[Tensor(float),Tensor(long int)]", "Int", "None",
                  "GenericList[Int,Int]"],
        "strides": [[[1, 2], [1, 1]], [], [], []],
    }  # fmt: skip
    arguments = _read(tmp_path, document).arguments_of(0)
    assert arguments is not None
    assert arguments.inputs[0].tensors == (
        TracedTensor(shape=(2, 3), dtype="float32", strides=(1, 2)),
        TracedTensor(shape=(2, 1), dtype="int64", strides=(1, 1)),
    )
    assert [one.value for one in arguments.inputs] == ["", "1", "", "[1, 2]"]


def test_what_runs_below_a_backward_frame_is_backward(tmp_path: Path) -> None:
    document = execution_trace()
    frame = document["nodes"][1]
    frame["name"] = "autograd::engine::evaluate_function: MmBackward0"
    document["nodes"].append({**frame, "id": 1, "ctrl_deps": 1, "name": "process"})
    trace = _read(tmp_path, document)
    assert [PHASES[phase] for phase in trace.operators.phase] == [
        Phase.BACKWARD, Phase.BACKWARD, Phase.FORWARD,
    ]  # fmt: skip


def test_the_number_of_processes_is_read(tmp_path: Path) -> None:
    document = execution_trace()
    groups = json.dumps([{"pg_name": "0", "group_size": 8}, {"pg_name": "1", "group_size": 2}])
    document["nodes"].append(
        {"id": 7, "ctrl_deps": 5, "name": "## process_group:init ##", "outputs": {}, "attrs": [],
         "inputs": {"values": [groups], "shapes": [[]], "types": ["String"]}}
    )  # fmt: skip
    assert _read(tmp_path, document).world_size == 8


def test_linked_traces_have_times_and_kernels(tmp_path: Path) -> None:
    document = execution_trace()
    document["nodes"][0].update(ts=1_000.5, inclusive_dur=20)
    document["nodes"].append(
        {"id": 10, "ctrl_deps": 9, "name": "sgemm", "cat": "kernel", "ts": 1_010, "dur": 7,
         "stream": 7, "inputs": {}, "outputs": {}, "attrs": []}
    )  # fmt: skip
    trace = _read(tmp_path, document)
    assert trace.operators.duration_ns.tolist() == [20_000, -1]
    # 1010 us less 1000.5 us.
    assert trace.kernels.start_ns.tolist() == [9_500]
    assert trace.kernels.duration_ns.tolist() == [7_000]
    assert trace.kernels.operator.tolist() == [0]


def test_callers_in_a_circle_are_refused(tmp_path: Path) -> None:
    document = execution_trace()
    document["nodes"][1]["ctrl_deps"] = 9
    with pytest.raises(InvalidTraceError, match="go in a circle"):
        _read(tmp_path, document)


@pytest.mark.parametrize(
    ("key", "value"),
    [("id", -1), ("id", 2**63), ("id", "x"), ("name", None), ("ts", float("nan")), ("ts", -1),
     ("ts", 1e300), ("inputs", 7), ("attrs", [{}]), ("ctrl_deps", [1])],
)  # fmt: skip
def test_a_node_that_is_none_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    document = execution_trace()
    if value is None:
        del document["nodes"][0][key]
    else:
        document["nodes"][0][key] = value
    with pytest.raises(InvalidTraceError, match="has a node that is none"):
        _read(tmp_path, document)


def test_a_trace_cut_in_half_is_refused(tmp_path: Path) -> None:
    content = json.dumps(execution_trace()).encode()
    with pytest.raises(InvalidTraceError, match="is cut"):
        _read(tmp_path, content[: len(content) - 30])


def test_chakra_in_protobuf(tmp_path: Path) -> None:
    trace = _read(tmp_path, chakra_et(), "chakra.0.et")
    # Parts of a call that kernels interrupt are numbered: that is no part of the name.
    assert trace.name_of(0) == "aten::mm"
    assert trace.operators.duration_ns.tolist() == [20_000]
    assert trace.kernels.duration_ns.tolist() == [7_000]
    assert trace.kernels.operator.tolist() == [0]
    arguments = trace.arguments_of(0)
    assert arguments is not None
    assert [tensor.shape for tensor in arguments.tensors] == [(2, 3), (3, 4)]
    assert arguments.inputs[2].value == "True"
    assert trace.software["execution_trace_schema"] == "1.1.0-chakra.0.0.4"


def test_chakra_in_json(tmp_path: Path) -> None:
    trace = _read(tmp_path, chakra_json())
    assert trace.operators.duration_ns.tolist() == [20_000]
    assert trace.kernels.duration_ns.tolist() == [7_000]
    assert trace.kernels.operator.tolist() == [0]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-3], "ends in the middle of a message"),
        (lambda content: content + varint(2**30), "has a message of 1073741824 bytes"),
        (lambda content: content + b"\xff" * 9, "has a message of"),
        (lambda content: content + varint(2) + b"\x0f\x0f", "no Chakra node"),
        (lambda content: content + varint(11) + message([(1, 2**63)]), "has a node that is none"),
    ],
)
def test_damaged_protobuf_is_refused(tmp_path: Path, damage: Any, reason: str) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        _read(tmp_path, damage(chakra_et()))

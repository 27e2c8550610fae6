"""JSON of rocprofv3."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up_profiles import rocprofv3_json

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind


def _written(folder: Path, document: Any) -> Path:
    path = folder / "results.json"
    path.write_text(json.dumps(document))
    return path


def test_kernels_copies_devices_and_launches(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, rocprofv3_json()))
    names = [trace.names[position] for position in trace.kernels.name]
    assert names == ["gemm(float*)", "MEMORY_COPY_HOST_TO_DEVICE"]
    # The earliest time is the call's, 70 001 000.
    assert trace.kernels.start_ns.tolist() == [4_000, 8_000]
    assert trace.kernels.duration_ns.tolist() == [3_000, 400]
    assert trace.kernels.launch_start_ns.tolist() == [0, -1]
    assert trace.kernels.launch_duration_ns.tolist() == [1_000, -1]
    assert trace.kernels.kind.tolist() == [KernelKind.COMPUTE, KernelKind.COPY]
    assert trace.kernels.size_bytes.tolist() == [-1, 64]
    assert trace.kernels.stream.tolist() == [2, -1]
    assert [(d.index, d.accelerator) for d in trace.devices] == [(0, "MI300X")]


@pytest.mark.parametrize("symbols", [[], [{"kernel_id": 5}]])
def test_a_kernel_without_a_symbol_keeps_its_number(
    tmp_path: Path, symbols: list[dict[str, int]]
) -> None:
    document = rocprofv3_json()
    document["rocprofiler-sdk-tool"][0]["kernel_symbols"] = symbols
    trace = read_trace(_written(tmp_path, document))
    assert trace.names[trace.kernels.name[0]].startswith("kernel 5")


def test_the_order_of_members_does_not_matter(tmp_path: Path) -> None:
    """As tools leave them that sort them: records before symbols and strings."""
    path = tmp_path / "sorted.json"
    path.write_text(json.dumps(rocprofv3_json(), sort_keys=True))
    trace = read_trace(path)
    names = [trace.names[position] for position in trace.kernels.name]
    assert names == ["gemm(float*)", "MEMORY_COPY_HOST_TO_DEVICE"]
    assert len(trace.devices) == 1


@pytest.mark.parametrize("sort_keys", [False, True])
def test_processes_of_one_file_are_told_apart(tmp_path: Path, sort_keys: bool) -> None:
    """The second has the ids of the first: kernel 5 is another, agent 31 its second device."""
    document = rocprofv3_json()
    second = rocprofv3_json()["rocprofiler-sdk-tool"][0]
    document["rocprofiler-sdk-tool"].append(second)
    second["agents"].insert(1, {**second["agents"][1], "id": {"handle": 29}})
    second["agents"][2].update(gpu_index=1)
    second["kernel_symbols"][0].update(formatted_kernel_name="axpy(float*)")
    # Launched by nothing that the file holds; its call would be the first process's.
    second["buffer_records"]["hip_api"] = []
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document, sort_keys=sort_keys))
    trace = read_trace(path)
    computed = trace.kernels.kind == KernelKind.COMPUTE
    names = [trace.names[position] for position in trace.kernels.name[computed]]
    assert names == ["gemm(float*)", "axpy(float*)"]
    assert trace.kernels.device[computed].tolist() == [0, 1]
    assert (trace.kernels.launch_start_ns[computed] >= 0).tolist() == [True, False]
    assert sorted(device.index for device in trace.devices) == [0, 1]


def test_kernels_of_a_graph_are_told(tmp_path: Path) -> None:
    document = rocprofv3_json()
    operations = [{"kind": f"KIND_{number}", "operations": []} for number in range(2, 5)]
    document["rocprofiler-sdk-tool"][0]["strings"]["buffer_records"] += [
        *operations, {"kind": "HIP_RUNTIME_API", "operations": ["a", "b", "c", "hipGraphLaunch"]},
    ]  # fmt: skip
    assert read_trace(_written(tmp_path, document)).kernels.graph.tolist() == [True, False]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("end_timestamp", 69_000_000, "before it starts"),
        ("end_timestamp", 2**63, "expected one from 0 to 2"),
        ("start_timestamp", -5, "expected one from 0"),
        ("start_timestamp", None, "not as rocprofv3 writes it"),
        ("dispatch_info", [], "not as rocprofv3 writes it"),
    ],
)
def test_a_record_that_cannot_be_is_refused(
    tmp_path: Path, key: str, value: Any, reason: str
) -> None:
    document = rocprofv3_json()
    document["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"][0][key] = value
    with pytest.raises(InvalidTraceError, match=reason):
        read_trace(_written(tmp_path, document))


def test_a_file_cut_in_half_is_refused(tmp_path: Path) -> None:
    path = _written(tmp_path, rocprofv3_json())
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InvalidTraceError, match="no whole JSON document"):
        read_trace(path)

"""Files of trtexec."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.analysis.explanation import explain_trace
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import KernelKind, TracedTensor

PROFILE = [
    {"count": 4},
    {"name": "conv + relu", "timeMs": 2.0, "averageMs": 0.5},
    {"name": "reformat", "timeMs": 0, "averageMs": 0},
]
TIMES = [
    {"startEnqMs": 0.9, "endEnqMs": 0.95, "startH2dMs": 1.0, "endH2dMs": 1.25,
     "startComputeMs": 1.25, "endComputeMs": 2.0, "startD2hMs": 2.0, "endD2hMs": 2.0,
     "h2dMs": 0.25, "computeMs": 0.75, "d2hMs": 0.0, "latencyMs": 1.0},
    {"startEnqMs": 1.9, "endEnqMs": 1.95, "startH2dMs": 3.0, "endH2dMs": 3.25,
     "startComputeMs": 3.25, "endComputeMs": 4.25, "startD2hMs": 4.25, "endD2hMs": 4.25,
     "h2dMs": 0.25, "computeMs": 1.0, "d2hMs": 0.0, "latencyMs": 1.25},
]  # fmt: skip
FORMAT = "Channel major FP16 format where channel % 8 == 0"
LAYERS = {
    "Layers": [
        {"Name": "conv + relu", "LayerType": "CaskConvolution", "ParameterType": "Convolution",
         "Inputs": [{"Name": "x", "Dimensions": [1, 8, 16, 16], "Format/Datatype": FORMAT}],
         "Outputs": [{"Name": "y", "Dimensions": [1, 32, 16, 16], "Format/Datatype": FORMAT}],
         "Kernel": [3, 3], "OutMaps": 32, "Groups": 2, "Weights": {"Type": "Half", "Count": 1152}},
        "reformat",
    ]
}  # fmt: skip
RUN = {
    "performance_summary": {"Throughput": 1.0},
    "device_information": {"Selected Device": "NVIDIA TITAN RTX", "SMs": 72.0,
                           "Device Global Memory": "24217 MiB", "Compute Capability": 7.5},
}  # fmt: skip


def _written(folder: Path, **documents: Any) -> Path:
    """Write files of one engine, named by the ends of their names, and return the first."""
    paths = [folder / f"net.engine.{end.replace('_', '.')}.json" for end in documents]
    for path, document in zip(paths, documents.values(), strict=True):
        path.write_text(json.dumps(document))
    return paths[0]


def test_times_of_layers_join_what_lies_beside_them(tmp_path: Path) -> None:
    path = _written(tmp_path, profile=PROFILE, graph=LAYERS, profile_metadata=RUN, timing=TIMES)
    trace = read_trace(path)
    # 2.0 ms over 4 iterations.
    assert trace.kernels.duration_ns.tolist() == [2_000_000, 0]
    assert trace.kernels.calls.tolist() == [4, 4]
    assert trace.kernels.operator.tolist() == [0, 1]
    assert trace.name_of(0) == "Convolution"
    arguments = trace.arguments_of(0)
    assert arguments is not None
    # 8 channels in two groups: each of the 32 filters reads four.
    assert arguments.tensors == (
        TracedTensor(shape=(1, 8, 16, 16), dtype="float16"),
        TracedTensor(shape=(32, 4, 3, 3), dtype="float16"),
    )
    assert trace.devices[0].accelerator == "TITAN-RTX"
    found = explain_trace(trace)
    assert found.step_count == 4
    assert (found.operators[0].operator.calls, found.operators[0].operator.time_per_call_s) == (
        4,
        pytest.approx(0.5e-3),
    )
    # Between 0.75 ms and 1 ms.
    assert "takes 0.875 ms undisturbed (median of 2)" in trace.notes[1]


def test_times_of_iterations(tmp_path: Path) -> None:
    path = _written(tmp_path, timing=TIMES)
    packed = tmp_path / "net.engine.timing.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    trace = read_trace(packed)
    # They are enqueued for 0.05 ms from 0.9 ms and from 1.9 ms on.
    marks = [(step.start_ns, step.duration_ns) for step in trace.steps]
    assert marks == [(0, 50_000), (1_000_000, 50_000)]
    assert trace.kernels.launch_start_ns.tolist() == [0, 0, 1_000_000, 1_000_000]
    computed = trace.kernels.kind == KernelKind.COMPUTE
    assert trace.kernels.duration_ns[computed].tolist() == [750_000, 1_000_000]
    assert trace.kernels.duration_ns[~computed].tolist() == [250_000, 250_000]


def test_older_versions_name_copies_otherwise(tmp_path: Path) -> None:
    older = {"startInMs": 1.0, "endInMs": 1.5, "startComputeMs": 1.5, "endComputeMs": 2.0,
             "startOutMs": 2.0, "endOutMs": 2.25, "inMs": 0.5, "computeMs": 0.5,
             "outMs": 0.25}  # fmt: skip
    trace = read_trace(_written(tmp_path, timing=[older]))
    assert sorted(trace.kernels.duration_ns.tolist()) == [250_000, 500_000, 500_000]


def test_layers_alone_have_no_times(tmp_path: Path) -> None:
    trace = read_trace(_written(tmp_path, graph=LAYERS))
    assert len(trace.kernels) == 0
    assert "without times" in trace.notes[0]


@pytest.mark.parametrize(
    ("name", "document", "reason"),
    [
        ("profile", [{"count": 0}], "expected one or more"),
        ("profile", [{"count": 1}, {"name": "a", "timeMs": -1.0}], "expected one >= 0"),
        ("profile", [{"count": 1}, {"name": "a", "timeMs": float("nan")}], "expected one >= 0"),
        ("profile", [{"count": 1}, {"name": "a"}], "expected one >= 0"),
        ("profile", [{"count": 1}, 7], "where trtexec writes an object"),
        ("timing", [{**TIMES[0], "endComputeMs": 0.5}], "before its startComputeMs"),
        ("timing", [TIMES[0], {"startEnqMs": 1}], "expected one >= 0"),
        ("profile_metadata", RUN, "describes a machine or a build"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, name: str, document: Any, reason: str) -> None:
    with pytest.raises(InvalidTraceError, match=reason):
        read_trace(_written(tmp_path, **{name: document}))


def test_damaged_metadata_beside_a_profile_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path, profile=PROFILE)
    (tmp_path / "net.engine.metadata.json").write_text("[{")
    with pytest.raises(InvalidTraceError, match=r"net\.engine\.metadata\.json"):
        read_trace(path)


def test_a_profile_cut_in_half_is_refused(tmp_path: Path) -> None:
    path = _written(tmp_path, profile=PROFILE)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InvalidTraceError, match="It was cut"):
        read_trace(path)


def test_the_order_of_members_does_not_matter(tmp_path: Path) -> None:
    """As tools leave them that read JSON and write it again."""
    times = [dict(sorted(one.items())) for one in TIMES]
    assert len(read_trace(_written(tmp_path, timing=times)).steps) == 2
    layers = {"Bindings": ["x", "y"], **LAYERS}
    assert len(read_trace(_written(tmp_path, graph=layers)).operators) == 2

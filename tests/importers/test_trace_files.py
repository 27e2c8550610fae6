"""Records of traced operators are ones that learners take."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import made_traces as made
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import StoreError
from perfmodel.features.kernels.kernel_work import kernel_work
from perfmodel.graph.job import Job
from perfmodel.importers.kernels.traced_calls import UnnamedCallError, traced_call
from perfmodel.importers.trace_files import TracedJob, import_traces, read_trace_files
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.traces.analysis.operator_work import priced_operators
from perfmodel.traces.analysis.operators import traced_operators
from perfmodel.traces.formats.registry import read_trace
from perfmodel.training.samples.measured_kernels import measured_calls, operator_steps

pytest.importorskip("torch")

F, S, L = "float", "Scalar", "ScalarList"
_Inputs = list[tuple[list[int], str, str]]
#: What a trace tells of a call -> operator and extents of its record.
CALLS: list[tuple[str, _Inputs, str, dict[str, float]]] = [
    ("aten::mm", [([4, 8], F, ""), ([8, 16], F, "")], "gemm", {"m": 4, "n": 16, "k": 8}),
    ("aten::linear", [([4, 8], F, ""), ([16, 8], F, ""), ([16], F, "")], "gemm",
     {"m": 4, "n": 16, "k": 8}),
    ("aten::bmm", [([3, 4, 8], F, ""), ([3, 8, 16], F, "")], "bmm",
     {"batch": 3, "m": 4, "n": 16, "k": 8}),
    ("aten::convolution",
     [([2, 3, 9, 9], F, ""), ([8, 3, 3, 3], F, ""), ([], "", ""), ([], L, "[2, 2]"),
      ([], L, "[1, 1]"), ([], L, "[1, 1]"), ([], S, "False"), ([], L, "[0, 0]"), ([], S, "1")],
     "conv2d", {"batch": 2, "c_in": 3, "c_out": 8, "kernel": 3, "stride": 2, "pad": 1,
                "height_out": 5, "width_out": 5}),
    ("aten::softmax", [([4, 5, 7], F, ""), ([], S, "-1"), ([], "", "")], "softmax",
     {"rows": 20, "width": 7}),
    ("aten::add", [([4, 7], F, ""), ([4, 7], F, ""), ([], S, "1")], "add",
     {"rows": 4, "width": 7, "inputs": 2}),
    ("aten::exp", [([4, 7], F, "")], "elementwise", {"rows": 4, "width": 7, "inputs": 1}),
    ("aten::scaled_dot_product_attention",
     [([2, 4, 6, 8], F, "")] * 3 + [([], "", ""), ([], S, "0."), ([], S, "True"), ([], "", ""),
                                    ([], S, "False")],
     "attention_prefill", {"batch": 2, "heads": 4, "kv_heads": 4, "tokens": 6, "head_dim": 8,
                           "context": 0, "kv_element_bytes": 4}),
]  # fmt: skip


def _write(folder: Path, name: str, inputs: _Inputs) -> Path:
    dims, types, values = map(list, zip(*inputs, strict=True))
    arguments = {"Input_Dims": dims, "Input_type": types, "Concrete_Inputs": values}
    events = [
        made.call(name, 0.0, 9.0, **arguments),
        made.launch(1, 3.0),
        made.kernel("some_kernel", 1, 20.0, 4.0),
    ]
    return made.write_trace(folder / "trace.json", events)


@pytest.mark.parametrize(("name", "inputs", "op", "shape"), CALLS, ids=[c[0] for c in CALLS])
def test_calls_become_records_with_named_extents(
    tmp_path: Path, name: str, inputs: _Inputs, op: str, shape: dict[str, float]
) -> None:
    imported = read_trace_files(_write(tmp_path, name, inputs))
    (record,) = imported.kernels
    assert (record.op, record.dtype, dict(record.shape)) == (op, "fp32", shape)
    assert (record.time_s, record.accelerator) == (pytest.approx(4e-6), "H100-SXM5-80GB")
    # What trees of kernels, and the joint predictor, learn from.
    assert kernel_work(measured_calls(imported.kernels).calls).traffic_bytes[0] > 0
    assert len(operator_steps(imported.kernels)) == (0 if op == "elementwise" else 1)


@pytest.mark.parametrize(
    ("name", "inputs", "reason"),
    [
        ("aten::mul", [([4, 7], F, ""), ([7], F, "")], "different sizes"),
        ("aten::mul", [([4, 7], "double", ""), ([4, 7], "double", "")], "no rates are known"),
        (
            "aten::add",
            [([4, 7], "long int", ""), ([4, 7], "long int", ""), ([], S, "1")],
            "its operands are int64",
        ),
        ("aten::mul", [([4, 7], F, ""), ([4, 7], "c10::BFloat16", "")], "bfloat16 and float32"),
        ("aten::cumsum", [([4, 7], F, ""), ([], S, "1"), ([], "", "")], "'cumsum'"),
        ("aten::mm", [([4, 8], "Odd", ""), ([8, 16], "Odd", "")], "does not tell all types"),
    ],
)
def test_what_no_record_can_say_is_left_out_with_its_reason(
    tmp_path: Path, name: str, inputs: _Inputs, reason: str
) -> None:
    path = _write(tmp_path, name, inputs)
    (one,) = priced_operators(traced_operators(read_trace(path)), None)
    with pytest.raises(UnnamedCallError, match=reason):
        traced_call(one)
    imported = read_trace_files(path)
    assert imported.kernels == ()
    assert reason in imported.rejected[0].reason


def test_a_folder_is_read_whole_and_what_is_no_trace_rejected(tmp_path: Path) -> None:
    made.write_trace(tmp_path / "a.json", made.training_events())
    made.write_trace(tmp_path / "b.json.gz", made.training_events(1))
    (tmp_path / "notes.txt").write_text("no trace")
    imported = read_trace_files(tmp_path)
    assert {record.origin.file for record in imported.kernels} == {"a.json", "b.json.gz"}
    assert any("no known trace format" in row.reason for row in imported.rejected)
    with pytest.raises(StoreError, match="No trace lies in"):
        read_trace_files(tmp_path / "absent")


TOLD = TracedJob(
    job=Job(model="zoo/mlp", batch_size=8), accelerator=Catalog.default().get("A100-SXM4-80GB")
)


def test_marked_steps_of_a_named_job_need_no_operators(tmp_path: Path) -> None:
    """trtexec marks iterations and tells nothing of what ran in them."""
    times = [
        {"startEnqMs": begin, "endEnqMs": begin, "startComputeMs": begin,
         "endComputeMs": begin + 1.5, "computeMs": 1.5}
        for begin in (1.0, 3.0, 5.0)
    ]  # fmt: skip
    path = tmp_path / "times.json"
    path.write_text(json.dumps(times))
    imported = import_traces([path], TOLD)
    (step,) = imported.steps
    # Iterations begin every 2 ms, and the last takes 1.5 ms; the median is 2 ms: 8 / 0.002 s.
    assert step.samples_per_second == pytest.approx(4_000)
    assert (step.accelerator, step.repeats, imported.kernels) == ("A100-SXM4-80GB", 3, ())
    assert [row.reason for row in imported.rejected] == [
        "Only 0.0 % of its device time could be joined to operators; 95 % are needed."
    ]


def test_kernels_that_repeat_are_no_steps_where_no_operators_are_known(tmp_path: Path) -> None:
    """Nine kernels four times over may be a step of a network or one of its layers."""
    header = "KernelName,gpu-id,BeginNs,EndNs"
    rows = [f"k{n % 9},0,{100 * n + 1},{100 * n + 51}" for n in range(36)]
    path = tmp_path / "results.csv"
    path.write_text("\n".join([header, *rows]))
    imported = import_traces([path], TOLD)
    assert (imported.steps, imported.kernels) == ((), ())
    assert "so do layers" in imported.rejected[-1].reason


def test_a_trace_under_two_names_counts_once(tmp_path: Path) -> None:
    plain = _write(tmp_path, "aten::mm", CALLS[0][1])
    packed = tmp_path / "copy.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    found = import_traces([plain, packed, plain], TracedJob())
    assert len(found.kernels) == 1
    assert [row.reason for row in found.rejected] == [
        "it holds the same kernels at the same times as trace.json"
    ] * 2


def test_calls_that_computed_more_than_the_device_can_are_no_records(tmp_path: Path) -> None:
    # 2 x 8,192 cubed over 4 us are 2.7e17 FLOP/s.
    path = _write(tmp_path, "aten::mm", [([8192, 8192], F, ""), ([8192, 8192], F, "")])
    found = import_traces([path], TracedJob())
    assert not found.kernels
    assert found.rejected[0].reason == "aten::mm: it computed more than a H100-SXM5-80GB can"


def test_what_devices_of_several_kinds_ran_is_no_record(tmp_path: Path) -> None:
    events = [*made.training_events(1), made.kernel("gemm", 99, 1050.0, 5.0, device=1)]
    devices = [made.H100, {"id": 1, "name": "Tesla T4"}]
    path = made.write_trace(tmp_path / "trace.json", events, deviceProperties=devices)
    found = import_traces([path], TracedJob())
    assert not found.kernels
    assert "H100-SXM5-80GB, T4" in found.rejected[0].reason


def test_steps_without_time_between_their_marks_are_no_record(tmp_path: Path) -> None:
    marks = [made.step_mark(number, 1000.0, 0.0) for number in (1, 2, 3)]
    events = [*marks, made.call("aten::mm", 1000.0, 9.0), made.launch(1, 1000.0),
              made.kernel("sgemm", 1, 1000.0, 5.0)]  # fmt: skip
    path = made.write_trace(tmp_path / "trace.json", events)
    found = import_traces([path], TracedJob(job=Job(model="timm/resnet50", batch_size=4)))
    assert not found.steps
    assert any("no time between" in row.reason for row in found.rejected)


def test_ranks_of_one_run_are_one_record(tmp_path: Path) -> None:
    files = []
    # Steps of 100, 110 and 130 us: ranks 0 to 2 of one run; rank 0 once more is another run.
    for number, (rank, period) in enumerate(((0, 100.0), (1, 110.0), (2, 130.0), (0, 150.0))):
        events = [*made.training_step(1, 1000.0), *made.training_step(2, 1000.0 + period)]
        marks = [e | {"dur": period} if "Profiler" in e["name"] else e for e in events]
        path = tmp_path / f"{number}.json"
        told = {"rank": rank, "world_size": 3}
        files.append(made.write_trace(path, marks, distributedInfo=told))
    found = import_traces(
        files,
        TracedJob(
            job=Job(model="zoo/mlp", batch_size=8), placement=parse_placement("3xH100-SXM5-80GB")
        ),
    )
    assert [one.step_time_s for one in found.placements] == pytest.approx([110e-6, 150e-6])

"""Records of traced operators are ones that learners take."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import made_traces as made
import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import StoreError
from perfmodel.features.kernels.kernel_work import kernel_work
from perfmodel.graph.job import Job
from perfmodel.importers.kernels.traced_calls import UnnamedCallError, traced_call
from perfmodel.importers.published import Imported
from perfmodel.importers.trace_files import TracedJob, import_traces, read_trace_files
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.traces.analysis.operator_work import priced_operators
from perfmodel.traces.analysis.operators import traced_operators
from perfmodel.traces.formats.registry import read_trace
from perfmodel.training.samples.measured_kernels import measured_calls, operator_steps
from perfmodel.types import Mode, Precision

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


SHAPES = {"Input_Dims": [[8, 16], [16, 32]], "Input_type": ["float", "float"]}
#: Products of 10 and 20 us on one device, and of 40 us on another.
ON_TWO = [
    *made.training_events(1),
    made.call("aten::mm", 1091.0, 6.0, **SHAPES),
    made.launch(99, 1093.0),
    made.kernel("volta_sgemm", 99, 1095.0, 40.0, device=1),
]
TWO = [made.H100, {"id": 1, "name": "Tesla T4"}]


def _times_us(imported: Imported) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for record in imported.kernels:
        found.setdefault(record.accelerator, []).append(round(1e6 * record.time_s, 3))
    return found


def test_what_each_of_several_kinds_of_devices_ran_is_a_record_of_that_kind(tmp_path: Path) -> None:
    path = made.write_trace(tmp_path / "trace.json", ON_TWO, deviceProperties=TWO)
    found = _times_us(import_traces([path], TracedJob()))
    assert found == {"H100-SXM5-80GB": [20.0, 10.0], "T4": [40.0]}


def test_devices_without_names_are_told_by_their_numbers(tmp_path: Path) -> None:
    path = made.write_trace(tmp_path / "trace.json", ON_TWO, deviceProperties=[])
    catalog = Catalog.default()
    told = {0: catalog.get("A100-SXM4-80GB"), 1: catalog.get("V100-SXM2-16GB")}
    found = _times_us(import_traces([path], TracedJob(accelerators=told)))
    assert found == {"A100-SXM4-80GB": [20.0, 10.0], "V100-SXM2-16GB": [40.0]}
    # Of what is left untold nothing is guessed.
    del told[1]
    found_part = import_traces([path], TracedJob(accelerators=told))
    assert not found_part.kernels
    assert "which accelerator of the catalogue device 1 ran on" in found_part.rejected[0].reason


def test_one_name_for_devices_of_several_kinds_is_refused(tmp_path: Path) -> None:
    path = made.write_trace(tmp_path / "trace.json", ON_TWO, deviceProperties=TWO)
    told = TracedJob(accelerator=Catalog.default().get("A100-SXM4-80GB"))
    found = import_traces([path], told)
    assert not found.kernels
    assert "T4 as device 1" in found.rejected[0].reason


def test_a_step_on_several_kinds_of_devices_needs_its_placement(tmp_path: Path) -> None:
    events = [*ON_TWO, made.step_mark(2, 1140.0, 100.0)]
    path = made.write_trace(tmp_path / "trace.json", events, deviceProperties=TWO)
    job = Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=8)
    alone = import_traces([path], TracedJob(job=job))
    assert not alone.steps
    assert any("--on PLACEMENT says where" in row.reason for row in alone.rejected)
    on_both = parse_placement("1xH100-SXM5-80GB+1xT4")
    (step,) = import_traces([path], TracedJob(job=job, placement=on_both)).placements
    assert step.placement == on_both


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"mode": Mode.TRAINING}, ""),
        ({"mode": Mode.TRAINING, "precision": Precision.TF32}, ""),
        ({"mode": Mode.INFERENCE}, "backward pass ran, and the job is said to be inference"),
        ({"mode": Mode.TRAINING, "precision": Precision.BF16}, "most of its products are fp32"),
    ],
)
def test_a_step_of_a_job_that_its_trace_contradicts_is_no_record(
    tmp_path: Path, said: dict[str, Any], reason: str
) -> None:
    path = made.write_trace(tmp_path / "trace.json", made.training_events(3))
    found = import_traces([path], TracedJob(job=Job(model="zoo/mlp", batch_size=8, **said)))
    assert bool(found.steps) is not bool(reason)
    said_of_steps = [row.reason for row in found.rejected if row.reason.startswith("its steps")]
    assert [reason in one for one in said_of_steps] == [True] * bool(reason)


def test_a_trace_without_types_contradicts_no_precision(tmp_path: Path) -> None:
    events = [
        {**event, "args": {k: v for k, v in event.get("args", {}).items() if "Input" not in k}}
        for event in made.training_events(3)
    ]
    path = made.write_trace(tmp_path / "trace.json", events)
    job = Job(model="zoo/mlp", mode=Mode.TRAINING, precision=Precision.BF16, batch_size=8)
    assert import_traces([path], TracedJob(job=job)).steps


def test_steps_without_time_between_their_marks_are_no_record(tmp_path: Path) -> None:
    marks = [made.step_mark(number, 1000.0, 0.0) for number in (1, 2, 3)]
    events = [*marks, made.call("aten::mm", 1000.0, 9.0), made.launch(1, 1000.0),
              made.kernel("sgemm", 1, 1000.0, 5.0)]  # fmt: skip
    path = made.write_trace(tmp_path / "trace.json", events)
    found = import_traces([path], TracedJob(job=Job(model="timm/resnet50", batch_size=4)))
    assert not found.steps
    assert any("no time between" in row.reason for row in found.rejected)


RUN = TracedJob(
    job=Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=8),
    placement=parse_placement("3xH100-SXM5-80GB"),
)
_NOON_NS = 1_750_000_000 * 10**9


def _rank(folder: Path, rank: int, period_us: float, **members: Any) -> Path:
    """Write the trace of a rank whose steps take as long as is said."""
    events = [*made.training_step(1, 1000.0), *made.training_step(2, 1000.0 + period_us)]
    marks = [e | {"dur": period_us} if "Profiler" in e["name"] else e for e in events]
    told = {"rank": rank, "world_size": 3, **members.pop("info", {})}
    path = folder / f"{len(list(folder.iterdir()))}.json"
    return made.write_trace(path, marks, distributedInfo=told, **members)


def _steps_us(imported: Imported) -> list[float]:
    return [pytest.approx(1e6 * one.step_time_s) for one in imported.placements]


def test_ranks_of_one_run_are_one_record(tmp_path: Path) -> None:
    # Steps of 100, 110 and 130 us: ranks 0 to 2 of one run; rank 0 once more is another run.
    ranks = ((0, 100.0), (1, 110.0), (2, 130.0), (0, 150.0))
    found = import_traces([_rank(tmp_path, *rank) for rank in ranks], RUN)
    assert _steps_us(found) == [110.0, 150.0]
    assert found.notes == (
        "One run, whose record is the median of its ranks: 0.json (rank 0), 1.json (rank 1), "
        "2.json (rank 2), with steps of 0.1 to 0.13 ms.",
        "A run of its own: 3.json (rank 0), since rank 0 is that of 0.json (rank 0) as well.",
    )


def test_ranks_that_were_recorded_at_other_times_are_other_runs(tmp_path: Path) -> None:
    """Two runs, named in any order, of which each lacks a rank that the other has."""
    later = {"baseTimeNanoseconds": _NOON_NS + 600 * 10**9}
    noon = {"baseTimeNanoseconds": _NOON_NS}
    files = [
        _rank(tmp_path, 0, 100.0, **noon), _rank(tmp_path, 1, 200.0, **later),
        _rank(tmp_path, 2, 210.0, **later), _rank(tmp_path, 1, 120.0, **noon),
    ]  # fmt: skip
    found = import_traces(files, RUN)
    assert _steps_us(found) == [110.0, 205.0]
    # One id for all ranks says more than clocks of hosts do.
    together = {"trace_id": "8F1B"}
    files = [
        _rank(tmp_path, 0, 100.0, **noon, **together),
        _rank(tmp_path, 1, 200.0, **later, **together),
    ]
    assert _steps_us(import_traces(files, RUN)) == [150.0]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"info": {"world_size": 2}}, "it has 2 ranks and 0.json (rank 0) 3"),
        ({"info": {"backend": "gloo"}}, "it ran collectives gloo and 0.json (rank 0) nccl"),
        ({"cuda_runtime_version": 12080}, "it ran cuda 12.8 and 0.json (rank 0) 12.4"),
    ],
)
def test_ranks_that_contradict_each_other_are_of_other_runs(
    tmp_path: Path, other: dict[str, Any], reason: str
) -> None:
    first = _rank(tmp_path, 0, 100.0, info={"backend": "nccl"})
    found = import_traces([first, _rank(tmp_path, 1, 200.0, **other)], RUN)
    assert _steps_us(found) == [100.0, 200.0]
    assert found.notes[-1] == f"A run of its own: 1.json (rank 1), since {reason}."


def test_a_step_on_another_accelerator_than_the_placement_has_is_no_record(tmp_path: Path) -> None:
    told = TracedJob(job=RUN.job, placement=parse_placement("3xA100-SXM4-80GB"))
    found = import_traces([_rank(tmp_path, 0, 100.0)], told)
    assert not found.placements
    assert any("the placement has A100-SXM4-80GB" in row.reason for row in found.rejected)

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfmodel.errors import StoreError
from perfmodel.importers.jobs.lambda_labs import read_lambda
from perfmodel.importers.published import Imported
from perfmodel.types import Mode, Precision

RUN: dict[str, Any] = {
    "device": "RTX 3070",
    "interconnect": "none",
    "n_gpus": 1,
    "task": "ssd",
    "precision": "fp32",
    "tf32_possible": False,
    "container": "20.10",
    "pytorch": "1.7.0a0+abc",
    "batch_global": 16.0,
    "throughput": 90.0,
    "throughput_steady": 100.0,
    "unit": "images/s",
    "mem_used_max_mib": None,
    "status": "ok",
    "data_backend": None,
    "flags": None,
}


def read(folder: Path, *changes: dict[str, Any]) -> Imported:
    rows = [{**RUN, **change} for change in changes]
    pq.write_table(pa.Table.from_pylist(rows), folder / "lambda_training.parquet")
    return read_lambda(folder)


def test_a_run_on_one_accelerator_is_a_step(tmp_path: Path) -> None:
    (step,) = read(tmp_path, {"mem_used_max_mib": 2048.0}).steps
    job = step.job
    assert (job.model, job.mode, job.optimizer) == (
        "zoo/ssd300-resnet50",
        Mode.TRAINING,
        "momentum",
    )
    assert job.software == {"torch": "1.7.0", "cuda": "11.1"}
    assert step.accelerator == "RTX-3070"
    assert step.samples_per_second == 100.0  # the steady figure, not 90
    assert step.step_time_s == pytest.approx(16 / 100)
    assert step.memory_bytes == 2048 * 2**20
    assert (step.origin.line, step.origin.licence) == (1, "not stated")


def test_bert_writes_the_scores_of_its_attention_in_every_container(tmp_path: Path) -> None:
    row = {"task": "bert_base_squad", "unit": "sequences/s", "container": "24.03"}
    (step,) = read(tmp_path, row).steps
    assert step.job.software["attention"] == "eager" and "apex" in step.job.software


def test_repeats_are_one_record_with_their_median_and_spread(tmp_path: Path) -> None:
    rates = (80.0, 100.0, 110.0)
    (step,) = read(tmp_path, *({"throughput_steady": rate} for rate in rates)).steps
    assert (step.samples_per_second, step.repeats) == (100.0, 3)
    assert step.spread == pytest.approx((110 - 80) / 100)


@pytest.mark.parametrize(
    ("task", "unit", "rate", "samples"),
    [
        ("gnmt", "tokens/s (src+tgt)", 4880.0, 100.0),  # 48.8 tokens a pair
        ("tacotron2", "mel frames/s", 5650.0, 10.0),  # 565 frames a clip
        ("waveglow", "audio samples/s", 16000.0, 2.0),  # 8000 audio samples a segment
        ("transformerxlbase", "tokens/s", 1920.0, 10.0),  # 192 tokens a sequence
        ("transformerxllarge", "tokens/s", 2560.0, 10.0),  # 256 tokens a sequence
        ("ncf", "samples/s", 5e6, 5e6),
    ],
)
def test_units_become_samples(
    tmp_path: Path, task: str, unit: str, rate: float, samples: float
) -> None:
    (step,) = read(tmp_path, {"task": task, "unit": unit, "throughput_steady": rate}).steps
    assert step.samples_per_second == pytest.approx(samples)


@pytest.mark.parametrize(
    ("ran", "tf32", "precision"),
    [
        ("fp32", False, Precision.FP32),
        ("fp32", True, Precision.TF32),
        ("amp", True, Precision.AMP_FP16),
        ("fp16", False, Precision.FP16),
    ],
)
def test_precision_is_what_ran(tmp_path: Path, ran: str, tf32: bool, precision: Precision) -> None:
    (step,) = read(tmp_path, {"precision": ran, "tf32_possible": tf32}).steps
    assert step.job.precision is precision


def test_several_accelerators_are_a_placement_over_the_link_that_is_known(tmp_path: Path) -> None:
    four = {"n_gpus": 4, "batch_global": 64.0}
    found = read(
        tmp_path,
        {**four, "interconnect": "pcie"},
        {**four, "interconnect": "nvlink", "device": "A100 40GB SXM4"},
        {**four, "interconnect": "unknown", "device": "RTX A6000"},
    )
    assert not found.steps
    assert [p.placement.nodes[0].link for p in found.placements] == ["pcie4", "nvlink3", None]
    first = found.placements[0]
    assert (first.placement.accelerator_count, first.batch_size) == (4, 16)
    assert first.step_time_s == pytest.approx(64 / 100)  # throughput is of the whole job


def test_loaders_of_many_accelerators_are_kept_apart(tmp_path: Path) -> None:
    row = {"n_gpus": 8, "task": "resnet50", "interconnect": "pcie"}
    loaders = ("synthetic", "syntetic", "dali-cpu")
    found = read(tmp_path, *({**row, "data_backend": loader} for loader in loaders))
    assert [p.settings["loader"] for p in found.placements] == ["synthetic", "dali-cpu"]
    assert [p.settings["repeats"] for p in found.placements] == ["2", "1"]


def test_runs_out_of_memory_are_shortages(tmp_path: Path) -> None:
    short = {"status": "oom", "n_gpus": 2, "batch_global": 32.0, "throughput_steady": None}
    found = read(tmp_path, short, short, {})
    (shortage,) = found.shortages
    assert (shortage.job.model, shortage.job.batch_size) == ("zoo/ssd300-resnet50", 16)
    assert (shortage.placement.accelerator_count, shortage.repeats) == (2, 2)
    assert (len(found.steps), len(found.placements), len(found.rejected)) == (1, 0, 0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "suspicious"}, "the run is marked suspicious"),
        ({"device": "RTX 9999"}, "unknown device 'RTX 9999'"),
        ({"task": "chess"}, "unknown task 'chess'"),
        ({"unit": "clips/s"}, "unit 'clips/s' of ssd is not 'images/s'"),
        ({"precision": "int3"}, "unknown precision 'int3'"),
        ({"batch_global": None}, "no batch_global"),
        ({"throughput_steady": None, "throughput": None}, "no throughput"),
        (
            {"flags": "few_steps;oom_text_in_log"},
            "memory ran out during one of the few steps that were timed",
        ),
        ({"throughput_steady": 0.0}, "throughput_steady is 0, no finite number above zero"),
    ],
)
def test_rows_that_say_nothing_are_rejected(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    found = read(tmp_path, change, {})
    assert [(r.line, r.reason) for r in found.rejected] == [(1, reason)]
    assert len(found.steps) == 1


def test_a_table_without_its_columns_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"device": ["A10"]}), tmp_path / "lambda_training.parquet")
    with pytest.raises(StoreError, match="lacks the columns interconnect"):
        read_lambda(tmp_path)

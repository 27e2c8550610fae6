from __future__ import annotations

import csv
from pathlib import Path

import pytest

from perfmodel.importers.frameworks.fastertransformer import read_fastertransformer
from perfmodel.importers.frameworks.lambda_tensorflow import read_lambda_tensorflow
from perfmodel.importers.jobs.timm_results import read_timm_releases
from perfmodel.types import Mode, Precision

RUN: dict[str, object] = {
    "device": "RTX-3090", "xla": "False", "nvlink": "True", "data": "syn", "update": "replicated",
    "precision": "fp32", "n_gpus": 2, "mode": "train", "model": "resnet50", "batch_per_gpu": 64,
    "images_per_s": 640, "tf_version": "2.4",
}  # fmt: skip
CELL: dict[str, object] = {
    "device_raw": "V100", "guide": "bert", "headings": "a > b", "context": "", "batch": 8,
    "other_axes": "Seq_len=128", "precision": "FP16", "engine": "TF Latency (ms)", "value": 4,
    "unit": "ms",
}  # fmt: skip


def _write(file: Path, *rows: dict[str, object]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def test_several_gpus_are_replicas_over_their_link(tmp_path: Path) -> None:
    imported = read_lambda_tensorflow(_write(tmp_path / "lambda_tensorflow.csv", RUN))
    (record,) = imported.placements
    assert not imported.steps and not imported.rejected
    # 2 x 64 images at 640 a second
    assert record.step_time_s == pytest.approx(0.2)
    assert record.placement.plan.data == 2
    assert record.placement.nodes[0].link == "nvlink"
    assert record.job is not None
    # TensorFlow 2.4 computes fp32 in TF32 on a card of 2020.
    assert (record.job.mode, record.job.precision) == (Mode.TRAINING, Precision.TF32)


def test_one_gpu_is_a_step(tmp_path: Path) -> None:
    alone = {**RUN, "n_gpus": 1, "mode": "infer", "tf_version": "1.14"}
    imported = read_lambda_tensorflow(_write(tmp_path / "lambda_tensorflow.csv", alone))
    (step,) = imported.steps
    assert not imported.placements
    assert (step.samples_per_second, step.job.precision) == (640, Precision.FP32)
    assert step.job.software == {"framework": "tensorflow", "tensorflow": "1.14"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"xla": "True"}, "another compiler"),
        ({"data": "real"}, "disk"),
        ({"update": "parameter_server"}, "server"),
        ({"model": "alexnet"}, "no reference workload"),
    ],
)
def test_other_runs_say_why_they_are_left_out(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    table = _write(tmp_path / "lambda_tensorflow.csv", {**RUN, **changes})
    (left,) = read_lambda_tensorflow(table).rejected
    assert reason in left.reason


def test_a_framework_beside_fastertransformer_is_a_step(tmp_path: Path) -> None:
    own = {**CELL, "engine": "FT Latency (ms)"}
    imported = read_fastertransformer(_write(tmp_path / "fastertransformer.csv", CELL, own))
    (step,) = imported.steps
    assert (step.accelerator, step.samples_per_second) == ("V100-PCIe-16GB", 2000)
    assert step.job.sequence_length == 128
    assert step.job.software == {"framework": "tensorflow"}
    traced = {**CELL, "engine": "torch.jit.trace"}
    (step,) = read_fastertransformer(_write(tmp_path / "fastertransformer.csv", traced)).steps
    assert step.job.software == {"torch": "1.8.0"}
    (left,) = imported.rejected
    assert "own kernels" in left.reason


def test_rows_of_several_files_say_which_they_are_of(tmp_path: Path) -> None:
    row = {
        "file": "benchmark-train-amp-nhwc-pt110-cu113-rtx3090.csv", "model": "resnet18",
        "train_samples_per_sec": 1000, "train_batch_size": 64, "train_img_size": 224,
        "param_count": 11.69,
    }  # fmt: skip
    other = {**row, "file": "something.csv"}
    table = _write(tmp_path / "timm_rtx3090_old_versions.csv", row, other)
    imported = read_timm_releases(table)
    (step,) = imported.steps
    assert step.job.software == {"torch": "1.10", "cuda": "11.3"}
    assert step.step_time_s == pytest.approx(0.064)
    (left,) = imported.rejected
    assert left.file == "something.csv"

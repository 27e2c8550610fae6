"""Tables of language models on clusters: made-up rows, and laws of the real ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from perfmodel.importers.language_models.cluster_models import cluster_model
from perfmodel.importers.language_models.cluster_table import precision_of
from perfmodel.importers.published import Imported, PublishedPlacement
from perfmodel.importers.registry import import_format
from perfmodel.placement.topology.topology import Schedule
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.types import Compiler, Precision

DATA = os.environ.get("PERFMODEL_DATA")
FORMATS = ("megatron-bridge", "dgxc-benchmarking", "nemo", "torchtitan")
#: A Llama 3 8B of made-up speed: 2 tensor x 2 stages x 16 replicas on 64 GPUs, 8 micro-batches.
BRIDGE: dict[str, object] = {
    "software": "NeMo container 99.01", "system": "DGX-H100", "model": "LLAMA3_8B",
    "num_devices": 64, "gbs": 128, "mbs": 1, "seq_len": 8192, "fsdp": 0, "tp": 2, "pp": 2, "cp": 1,
    "vp": 4, "ep": "", "precision": "FP8-CS", "tokens_per_s_per_gpu": 1000,
    "model_tflops_per_gpu": 57.9, "row_problem": "", "republished_layout_duplicate": "False",
    "first_date": "2099-01-01",
}  # fmt: skip
DGXC: dict[str, object] = {
    "model": "Llama 3.1 405b 99.01 BF16", "precision": "BF16", "num_devices": 32, "device": "H100",
    "container": "99.01", "step_time_s": 8, "tokens_per_s": "", "mfu_pct": "", "seq_len": "",
    "seq_len_implied": 8200, "layers": 7, "tp": 8, "pp": 1, "cp": 2, "vp": 7, "ep": "", "mbs": 1,
    "gbs": 128, "republished_duplicate": "False", "first_date": "2099-01-01",
}  # fmt: skip
NEMO: dict[str, object] = {
    "phase": "pretrain_long_seq", "model": "", "num_devices": 4, "gbs": 64, "mbs": "",
    "seq_len": "", "seq_len_k": 16, "tp": 1, "pp": "", "cp": 1, "vp": "",
    "tokens_per_s_per_gpu": "", "model_tflops_per_gpu": 1000, "section": "LLAMA3-8B (FP8) - B200",
    "row_problem": "", "first_date": "2099-01-01", "system": "DGX-B200", "task": "",
}  # fmt: skip
TITAN: dict[str, object] = {
    "value": 500, "metric": "TPS/GPU", "unit": "tokens/s/GPU",
    "config": json.dumps({"Techniques": "FSDP + torch.compile + Float8"}),
    "caption": "Table 1. 8 GPUs. Selective activation checkpointing.", "section": "",
    "num_devices": 8, "device": "H100-96GB(HBM2e, Meta)", "local_batch": 2,
    "model": "Llama 3.1 8B", "first_date": "2099-01-01",
}  # fmt: skip
FILES = {
    "megatron-bridge": "megatron_bridge.csv", "dgxc-benchmarking": "dgxc_benchmarking.csv",
    "nemo": "nemo_2024.csv", "torchtitan": "torchtitan.csv",
}  # fmt: skip


def _read(
    folder: Path, name: str, row: dict[str, object], *more: dict[str, object], **changes: object
) -> Imported:
    import csv

    with (folder / FILES[name]).open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(row))
        writer.writeheader()
        writer.writerows([{**row, **changes}, *more])
    return import_format(name).read(folder)


def _one(folder: Path, name: str, row: dict[str, object], **changes: object) -> PublishedPlacement:
    imported = _read(folder, name, row, **changes)
    assert not imported.rejected
    (record,) = imported.placements
    return record


def _reason(folder: Path, name: str, row: dict[str, object], **changes: object) -> str:
    imported = _read(folder, name, row, **changes)
    assert not imported.placements
    (left,) = imported.rejected
    return left.reason


def test_a_row_of_megatron_bridge_is_a_step_of_its_plan(tmp_path: Path) -> None:
    record = _one(tmp_path, "megatron-bridge", BRIDGE)
    plan, job = record.placement.plan, record.job
    assert job is not None
    # 64 / (2 x 2) replicas; 128 sequences over them one by one
    assert (plan.data, plan.tensor, plan.pipeline, plan.virtual_stages) == (16, 2, 2, 4)
    assert plan.schedule is Schedule.INTERLEAVED
    assert plan.sequence_parallel
    assert (job.batch_size, job.accumulation_steps, job.sequence_length) == (1, 8, 8192)
    assert job.precision is Precision.FP8
    assert job.software == {"nemo": "99.01"}
    assert record.step_time_s == pytest.approx(128 * 8192 / 64_000)
    assert record.placement.host_count == 8


def test_superchips_come_in_fours_and_sharded_parameters_are_said(tmp_path: Path) -> None:
    changes = {"system": "DGX-GB200", "fsdp": 1}
    record = _one(tmp_path, "megatron-bridge", BRIDGE, **changes)
    assert record.placement.nodes[0].count == 4
    assert record.placement.plan.zero_stage == 3


def test_what_was_printed_again_is_the_newest(tmp_path: Path) -> None:
    newer = {**BRIDGE, "first_date": "2099-02-01", "tokens_per_s_per_gpu": 1001,
             "model_tflops_per_gpu": 57.96}  # fmt: skip
    imported = _read(tmp_path, "megatron-bridge", BRIDGE, newer)
    (record,) = imported.placements
    assert record.step_time_s == pytest.approx(128 * 8192 / 64_064)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"precision": "NVFP4"}, "cannot state the precision"),
        ({"model": "Qwen3_Next_80B"}, "two kinds"),
        ({"model_tflops_per_gpu": 30}, "not those of the model"),
        ({"gbs": 100}, "does not divide"),
        ({"tp": 3}, "no multiple of a split"),
        ({"row_problem": "9 cells"}, "too few cells"),
        ({"system": "DGX-Z1"}, "not known"),
    ],
)
def test_what_is_not_understood_says_why(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    assert reason in _reason(tmp_path, "megatron-bridge", BRIDGE, **changes)


@pytest.mark.parametrize(
    ("name", "row", "column", "what"),
    [
        ("megatron-bridge", BRIDGE, "system", "system"),
        ("dgxc-benchmarking", DGXC, "device", "accelerator"),
        ("nemo", NEMO, "system", "system"),
        ("torchtitan", TITAN, "device", "accelerator"),
    ],
)
def test_hardware_that_is_not_known_is_named(
    tmp_path: Path, name: str, row: dict[str, object], column: str, what: str
) -> None:
    assert _reason(tmp_path, name, row, **{column: "X9"}) == f"the {what} 'X9' is not known"


def test_a_model_that_was_cut_down_has_its_layers(tmp_path: Path) -> None:
    # 7 layers of Llama 3.1 405B, 8192 tokens: the whole square of the scores counts.
    job = cluster_model("Llama 3.1 405b", layers=7)
    shape = transformer_shape(_job(job, 8192))
    assert shape is not None
    share = 100 * shape.sample_flops * 128 / (8 * 32 * 989e12)
    record = _one(tmp_path, "dgxc-benchmarking", DGXC, mfu_pct=share)
    assert record.job is not None and record.job.hf_config is not None
    assert record.job.hf_config["num_hidden_layers"] == 7
    assert record.job.sequence_length == 8192
    assert (record.placement.plan.data, record.placement.plan.context) == (2, 2)
    assert record.step_time_s == pytest.approx(8)


def test_frozen_weights_and_runs_of_jax_are_left_out(tmp_path: Path) -> None:
    lora = _reason(tmp_path, "dgxc-benchmarking", DGXC, model="Llama3 8b Finetuning LORA BF16")
    assert "LoRA" in lora
    assert "JAX" in _reason(tmp_path, "dgxc-benchmarking", DGXC, model="Maxtext LLama2 70b BF16")


def test_arithmetic_alone_is_of_the_whole_square(tmp_path: Path) -> None:
    record = _one(tmp_path, "nemo", NEMO)
    shape = transformer_shape(_job(cluster_model("LLAMA3-8B"), 16384))
    assert shape is not None
    # 64 sequences on four GPUs at 1,000 TFLOP/s each
    assert record.step_time_s == pytest.approx(64 * shape.sample_flops / 4e15)
    assert record.job is not None and record.job.precision is Precision.FP8


def test_a_page_without_a_system_is_left_out(tmp_path: Path) -> None:
    assert "which system" in _reason(tmp_path, "nemo", NEMO, system="")


def test_a_row_of_torchtitan_says_how_it_ran(tmp_path: Path) -> None:
    record = _one(tmp_path, "torchtitan", TITAN)
    job = record.job
    assert job is not None
    assert (job.compiler, job.precision) == (Compiler.INDUCTOR, Precision.FP8)
    assert job.selective_checkpointing
    assert record.placement.plan.zero_stage == 3
    assert record.step_time_s == pytest.approx(2 * 8 * 8192 / 4000)
    layers = json.dumps({"Model size": "8B", "Activation checkpointing": "selective layer"})
    assert "every second layer" in _reason(tmp_path, "torchtitan", TITAN, config=layers)
    other = json.dumps({"Optimizations": "Float8 + Async TP"})
    assert "asynchronously" in _reason(tmp_path, "torchtitan", TITAN, config=other)


def test_four_bits_are_no_eight() -> None:
    assert precision_of("MXFP8") is Precision.FP8
    with pytest.raises(ValueError, match="NVFP4"):
        precision_of("NVFP4")


@pytest.mark.skipif(not DATA, reason="PERFMODEL_DATA names no folder of tables")
@pytest.mark.parametrize("name", FORMATS)
def test_real_rows_do_less_than_the_peak(name: str) -> None:
    from perfmodel.devices.catalog import Catalog

    chosen = import_format(name)
    imported = chosen.read(chosen.usual_path(Path(str(DATA))))
    assert imported.placements
    for record in imported.placements:
        assert record.job is not None
        shape = transformer_shape(record.job)
        assert shape is not None
        spec = Catalog.default().get(record.placement.nodes[0].accelerator)
        samples = (record.placement.plan.data or 1) * record.job.batch_size
        flops = shape.sample_flops * samples * record.job.accumulation_steps
        rate = flops / record.step_time_s / record.placement.accelerator_count
        # Rates beyond these are no rates of training.
        assert 0.02 < rate / spec.flops_per_s(record.job.precision) < 0.85, record


def _job(model: Any, length: int) -> Any:
    from perfmodel.graph.job import Job

    return Job(**model, sequence_length=length)

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import StoreError
from perfmodel.importers.language_models.llm_training import read_llm_training
from perfmodel.importers.language_models.llm_training_runs import CONFIGS, RUNS, config_of
from perfmodel.importers.published import PublishedPlacement
from perfmodel.placement.topology.topology import Schedule
from perfmodel.placement.transformers.transformer_jobs import transformer_shape
from perfmodel.types import Precision

COLUMNS = (
    "source", "src", "device", "framework", "model", "hidden", "layers", "heads", "seq_len",
    "vocab", "precision", "num_devices", "num_slices", "tp", "pp", "dp", "cp", "vp",
    "global_batch", "micro_batch", "grad_accum", "step_time_s", "tflops_per_dev", "mfu_pct",
    "hfu_pct", "flops_kind", "tok_s_per_dev", "tokens_per_step", "note",
)  # fmt: skip
#: A GPT of 2 layers on 32 made-up A100: 2 tensor x 4 stages x 4 replicas, 2 x 3 x 4 sequences.
MEGATRON = {
    "source": "Megatron-LM 2099", "src": "NVIDIA/Megatron-LM", "device": "A100-SXM-80GB",
    "framework": "Megatron-LM", "model": "GPT-tiny", "hidden": 64, "layers": 8, "heads": 4,
    "seq_len": 32, "vocab": 100, "precision": "bf16", "num_devices": 32, "tp": 2, "pp": 4,
    "dp": 4, "global_batch": 24, "micro_batch": 2, "step_time_s": 1.5, "flops_kind": "model",
}  # fmt: skip
TPU = {
    "source": "tpu-recipes log line", "src": "AI-Hypercomputer/tpu-recipes", "device": "TPU-v6e",
    "framework": "MaxText", "model": "Llama3.1-8B-MaxText", "precision": "bf16",
    "num_devices": 16, "step_time_s": 2.0, "tokens_per_step": 16 * 3 * 8192,
    "tok_s_per_dev": 3 * 4096, "flops_kind": "model",
}  # fmt: skip


def _read(
    folder: Path, row: dict[str, object], **changes: object
) -> tuple[PublishedPlacement, ...]:
    given = {**row, **changes}
    cells = [str(given.get(name, "")) for name in COLUMNS]
    (folder / "llm_training_misc.csv").write_text(",".join(COLUMNS) + "\n" + ",".join(cells) + "\n")
    imported = read_llm_training(folder)
    for row_left in imported.rejected:
        raise ValueError(row_left.reason)
    return imported.placements


def test_a_row_that_states_all_is_a_megatron_step(tmp_path: Path) -> None:
    (record,) = _read(tmp_path, MEGATRON)
    plan, job = record.placement.plan, record.job
    assert (plan.data, plan.tensor, plan.pipeline, plan.zero_stage) == (4, 2, 4, 0)
    assert record.placement.host_count == 4
    assert record.step_time_s == 1.5
    assert job is not None and job.model == "zoo/megatron-gpt"
    # 24 sequences over 4 replicas in micro-batches of 2
    assert (job.batch_size, job.accumulation_steps) == (2, 3)
    assert job.precision is Precision.AMP_BF16 and not job.activation_checkpointing
    shape = transformer_shape(job)
    assert shape is not None
    assert (shape.layers, shape.hidden_size, shape.vocabulary) == (8, 64, 100)


def test_chunks_of_stages_are_interleaved(tmp_path: Path) -> None:
    (record,) = _read(tmp_path, MEGATRON, vp=2)
    assert record.placement.plan.schedule is Schedule.INTERLEAVED
    assert record.placement.plan.virtual_stages == 2


def test_a_rate_of_arithmetic_becomes_a_time(tmp_path: Path) -> None:
    # A token passes 8 x 12 x 64^2 weights of layers, 100 x 64 of words, and scores of 32 x 64 in
    # each layer: 3 (2 (393,216 + 6,400) + 4 x 8 x 32 x 64) = 2,594,304 FLOP.
    tokens = 24 * 32
    own = 2_594_304 * tokens
    rate = {"step_time_s": "", "tflops_per_dev": 1e-3}
    (record,) = _read(tmp_path, MEGATRON, **rate)
    assert record.step_time_s == pytest.approx(own / (1e9 * 32))
    # With recomputation the layers count four times for three: all but 6 x 100 x 64 a token.
    again = 6 * 100 * 64 * tokens
    (other,) = _read(tmp_path, MEGATRON, **rate, flops_kind="hardware incl. recompute")
    assert other.step_time_s == pytest.approx(((own - again) * 4 / 3 + again) / (1e9 * 32))
    assert other.job is not None and other.job.activation_checkpointing
    assert not other.placement.plan.sequence_parallel


def test_utilisations_tell_what_is_computed_again(tmp_path: Path) -> None:
    (record,) = _read(tmp_path, MEGATRON, mfu_pct=50, hfu_pct=51)
    assert record.job is not None and record.job.selective_checkpointing
    assert record.placement.plan.sequence_parallel


def test_a_recipe_is_a_sharded_step_of_a_slice(tmp_path: Path) -> None:
    (record,) = _read(tmp_path, TPU)
    plan, job = record.placement.plan, record.job
    assert (plan.data, plan.zero_stage) == (16, 3)
    assert record.placement.host_count == 4 and record.placement.network is None
    assert job is not None and job.activation_checkpointing
    assert (job.batch_size, job.sequence_length, record.step_time_s) == (3, 8192, 2.0)


def test_slices_are_hosts_on_the_network_of_the_data_centre(tmp_path: Path) -> None:
    (record,) = _read(
        tmp_path, TPU, device="TPU-v5e", model="dense-16B", num_devices=512, num_slices=2,
        tokens_per_step="", tok_s_per_dev="", step_time_s="", tflops_per_dev=100,
    )  # fmt: skip
    placement = record.placement
    assert (placement.host_count, placement.nodes[0].count) == (2, 256)
    assert placement.network is not None
    # 256 chips x 25 Gbit/s
    assert placement.network.bandwidth_bytes_per_s == 800e9
    assert record.job is not None and record.job.batch_size == 6


@pytest.mark.parametrize(
    ("row", "changes", "reason"),
    [
        (MEGATRON, {"device": "a good GPU"}, "is not named"),
        (MEGATRON, {"dp": 3}, "the plan has 24 accelerators"),
        (MEGATRON, {"tp": 3}, "no multiple of a split over 12"),
        (MEGATRON, {"micro_batch": ""}, "neither the micro-batch"),
        (MEGATRON, {"global_batch": 26}, "no multiple of 4 replicas"),
        (MEGATRON, {"precision": "fp4"}, "precision is 'fp4'"),
        (MEGATRON, {"step_time_s": ""}, "neither a time nor a rate"),
        (MEGATRON, {"tok_s_per_dev": 1}, "contradict each other"),
        (MEGATRON, {"note": "MFU inconsistent"}, "contradicts the utilisation"),
        (MEGATRON, {"model": "Llama3-70B"}, "not those of the model"),
        (TPU, {"model": "Mystery-7B"}, "sizes of the model are not stated"),
        (TPU, {"model": "DeepSeek3-671B-MaxText"}, "layers of two kinds"),
        (TPU, {"model": "dense-48b"}, "sizes of the model are not stated"),
        (TPU, {"device": "TPU-v4"}, "the parallel plan and the batch are not stated"),
        (TPU, {"tokens_per_step": ""}, "the batch is not stated"),
        (TPU, {"tokens_per_step": 5000}, "no whole sequences"),
        (TPU, {"seq_len": 4096}, "another length"),
    ],
)
def test_rows_that_do_not_say_enough_are_reported(
    tmp_path: Path, row: dict[str, object], changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        _read(tmp_path, row, **changes)


def test_models_named_after_their_parameters_have_as_many(tmp_path: Path) -> None:
    # 2^5 = 2^(3 + 2): 32 layers of 8,192 features, 64 heads of 128, and 28,672 inside.
    config = config_of("dense-32B")
    each = 4 * 8192**2 + 3 * 8192 * 28672
    assert 32 * each == pytest.approx(32e9, rel=0.03)
    assert (config["hidden_size"], config["num_attention_heads"]) == (8192, 64)


def test_every_run_is_of_a_model_and_a_device_that_are_known() -> None:
    catalog = Catalog.default()
    for (device, name), run in RUNS.items():
        assert catalog.get(device).kind in ("tpu", "npu")
        assert config_of(name)["vocab_size"] > 0
        assert run.chip_batch is None or run.micro_batch is None
    assert all(name == name.lower() for name in CONFIGS)


def test_a_folder_without_the_table(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="llm_training_misc"):
        read_llm_training(tmp_path)


@pytest.mark.skipif(
    not os.environ.get("PERFMODEL_DATA"), reason="PERFMODEL_DATA names no public measurements"
)
def test_no_published_step_beats_the_peak() -> None:
    imported = read_llm_training(Path(os.environ["PERFMODEL_DATA"]))
    catalog = Catalog.default()
    assert len(imported.placements) > 40
    for record in imported.placements:
        job = record.job
        assert job is not None
        shape = transformer_shape(job)
        assert shape is not None
        spec = catalog.get(record.placement.nodes[0].accelerator)
        samples = (record.placement.plan.data or 1) * job.batch_size * job.accumulation_steps
        flops = samples * shape.sample_flops * (4 / 3 if job.activation_checkpointing else 1)
        peak = record.placement.accelerator_count * spec.flops_per_s(job.precision)
        assert 0.1 < flops / (record.step_time_s * peak) < 1.0, (record.job_type, record.origin)

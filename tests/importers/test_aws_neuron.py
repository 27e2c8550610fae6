"""The pages of AWS Neuron: steps of one chip, and training on instances of sixteen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from graph_totals import totals
from importers.tidy_tables import write_rows

from perfmodel.devices.catalog import Catalog
from perfmodel.engines.local_engine import LocalEngine
from perfmodel.importers.makers.aws_neuron import TABLE, read_aws_neuron
from perfmodel.importers.registry import read_format
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.types import Compiler, Mode, Precision
from perfmodel.zoo.resolve import capture_job

FOLDER = os.environ.get("PERFMODEL_DATA")


def asked(**changed: Any) -> dict[str, Any]:
    """Return a made-up row of inference: two calls of 8 samples, 20 ms each."""
    plain: dict[str, Any] = {
        "Model": "bert-base-cased", "Model details": None, "Framework": "PyTorch 1.13.1",
        "Inst. Type": "trn1.2xlarge", "Batch Size": 8.0, "Latency P50 (ms)": 20.0,
        "Neuron Version": "2.16.0", "Task": "Raw Output (AutoModel)", "Model Data Type": "FP32",
        "Compilation Autocast Data Type": "Matmult-BF16", "Performance [seq/sec]": None,
        "Throughput (inference/sec)": 800.0, "Sequence Length": "128",
    }  # fmt: skip
    return {**plain, **changed}


def trained(**changed: Any) -> dict[str, Any]:
    """Return a made-up row of training on two instances, 64 cores."""
    plain: dict[str, Any] = {
        "Model": "HuggingFace BERT-Large Ph1 pre-training", "Topology": "[32xNC(DP)] x 2Nodes(DP)",
        "Microbatch": 16.0, "Global Minibatch": 4096.0, "Performance [seq/sec]": 1024.0,
        "Training Data-Type": "Autocast:BF16+SR", "Nodes": 2.0, "Optimizer": "Lamb",
        "Neuron Version": "2.16.0",
    }  # fmt: skip
    nothing = dict.fromkeys(asked())
    return {**nothing, **plain, **changed}


def _read(folder: Path, *rows: dict[str, Any]) -> Any:
    write_rows(folder / TABLE.files[0], rows)
    return read_aws_neuron(folder)


def test_cores_of_a_chip_run_a_model_each(tmp_path: Path) -> None:
    (step,) = _read(tmp_path, asked()).steps
    # 800 a second for 20 ms are 16 samples under way: two calls of 8, one a core.
    assert (step.accelerator, step.job.batch_size) == ("Trainium1", 16)
    assert step.step_time_s == pytest.approx(0.02)
    assert (step.job.precision, step.job.compiler) == (Precision.AMP_BF16, Compiler.INDUCTOR)
    assert step.job.software == {"neuron": "2.16.0"} and step.job.sequence_length == 128
    assert step.job.hf_config is not None
    assert step.job.hf_config["architectures"] == ["BertModel"]


def test_calls_that_wait_are_not_computed(tmp_path: Path) -> None:
    # 1600 a second for 20 ms are four calls: two run, two wait.
    (step,) = _read(tmp_path, asked(**{"Throughput (inference/sec)": 1600.0})).steps
    assert step.job.batch_size == 16
    assert step.step_time_s == pytest.approx(0.01)


def test_resnet_in_tensorflow_on_inferentia(tmp_path: Path) -> None:
    row = asked(
        **{
            "Model": "Resnet-50", "Model details": "fp16", "Framework": "Tensorflow 1.15",
            "Inst. Type": "inf1.xlarge", "Batch Size": 5.0, "Latency P50 (ms)": 10.0,
            "Task": None, "Model Data Type": None, "Avg Throughput (/sec)": 2000.0,
        }
    )  # fmt: skip
    (step,) = _read(tmp_path, row).steps
    assert (step.accelerator, step.job.model) == ("Inferentia1", "timm/resnet50")
    assert (step.job.batch_size, step.job.precision) == (20, Precision.FP16)
    assert step.job.software["framework"] == "tensorflow"


def test_replicas_fill_a_core_each(tmp_path: Path) -> None:
    (placement,) = _read(tmp_path, trained()).placements
    assert placement.placement.accelerator_count == 32 and placement.placement.plan.data == 32
    # 4096 over 64 cores of 16: four micro-batches, of which a chip has two each time.
    assert (placement.job.batch_size, placement.job.accumulation_steps) == (32, 4)
    assert placement.step_time_s == 4.0
    assert (placement.job.sequence_length, placement.job.optimizer) == (128, "lamb")
    assert placement.job.precision is Precision.BF16


def test_tensor_ranks_are_pairs_of_cores(tmp_path: Path) -> None:
    row = trained(
        **{
            "Model": "Llama2-7B pre-training", "Topology": "TP=8 DP=8", "Microbatch": 1.0,
            "Global Minibatch": 64.0, "Sequence Length": "4096", "Optimizer": "AdamW",
            "Training Data-Type": "Autocast:BF16+FP32Optimizer", "Performance [seq/sec]": 16.0,
        }
    )  # fmt: skip
    (placement,) = _read(tmp_path, row).placements
    plan = placement.placement.plan
    assert (plan.tensor, plan.data, placement.placement.accelerator_count) == (4, 8, 32)
    assert (placement.step_time_s, placement.job.accumulation_steps) == (4.0, 8)
    assert placement.job.precision is Precision.AMP_BF16


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (asked(**{"Throughput (inference/sec)": None}), "loop over tokens"),
        (asked(**{"Inst. Type": "inf1.6xlarge"}), "several chips"),
        (asked(**{"Throughput (inference/sec)": 600.0}), "1.50 calls"),
        (asked(Model="xlm-roberta-base"), "no reference"),
        (asked(Task="Text Generation"), "Text Generation"),
        (asked(**{"Model Data Type": "FP8"}), "fp8"),
        (trained(Optimizer=None), "no Optimizer"),
        (trained(Model="HuggingFace CLIP-Base fine-tuning"), "CLIP"),
        (trained(**{"Global Minibatch": 1000.0}), "does not divide"),
        (trained(Topology="TP=8 DP=4 PP=4"), "does not come to the 64 cores"),
        (trained(**{"Training Data-Type": "FP8"}), "FP8"),
    ],
)
def test_what_is_not_understood_is_said(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    found = _read(tmp_path, row)
    assert not found.steps and not found.placements
    assert reason in found.rejected[0].reason


def test_encoders_become_samples(tmp_path: Path) -> None:
    steps = _read(tmp_path, asked()).steps
    (sample,) = build_corpus(steps, cache=tmp_path / "cache", engine=LocalEngine()).samples
    assert (sample.family, sample.source) == ("bert", "aws-neuron-sdk")
    assert sample.step.mode is Mode.INFERENCE


@pytest.mark.skipif(not FOLDER, reason="PERFMODEL_DATA names no folder of tables")
def test_no_published_step_beats_the_peak_of_its_chip() -> None:
    found = read_format("aws-neuron", Path(str(FOLDER)))
    assert len(found.steps) > 100 and len(found.placements) > 30
    for step in found.steps[::60]:
        peak = Catalog.default().get(step.accelerator).flops_per_s(Precision.BF16)
        assert totals(capture_job(step.job)).flops < peak * step.step_time_s


@pytest.mark.skipif(not FOLDER, reason="PERFMODEL_DATA names no folder of tables")
def test_more_instances_train_faster() -> None:
    found = read_format("aws-neuron", Path(str(FOLDER)))
    rates: dict[int, list[float]] = {}
    for one in found.placements:
        job = one.job
        if job is not None and job.sequence_length == 128 and job.precision is Precision.BF16:
            chips = one.placement.accelerator_count
            rate = chips * job.batch_size * job.accumulation_steps / one.step_time_s
            rates.setdefault(chips, []).append(rate)
    assert min(rates[256]) > 8 * max(rates[16])

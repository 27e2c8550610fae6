import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfmodel.errors import StoreError
from perfmodel.importers.jobs.deep_learning_examples import read_deep_learning_examples
from perfmodel.importers.published import Imported
from perfmodel.types import MemoryFormat, Mode, Precision

FIGURE: dict[str, Any] = {
    "framework": "PyTorch",
    "readme": "PyTorch/Translation/GNMT/README.md",
    "line": 42,
    "device": "V100-SXM2-16GB",
    "num_gpus": 1,
    "precision": "fp32",
    "batch_per_gpu": 100.0,
    "throughput": 48800.0,
    "unit": "tok/s",
    "ngc_container": 20.06,
    "variant": None,
    "section_variant": None,
    "seq_len": None,
}
IMAGES = {
    "readme": "PyTorch/Classification/ConvNets/resnext101-32x4d/README.md",
    "unit": "img/s",
    "throughput": 1000.0,
}
BERT = {
    "readme": "PyTorch/LanguageModeling/BERT/README.md",
    "unit": "seq/s",
    "section_variant": "Fine-tuning on SQuAD",
    "seq_len": 384.0,
}


def training(folder: Path, *changes: dict[str, Any]) -> Imported:
    with (folder / "nvidia_dle_training.csv").open("w", newline="") as handle:
        writer = csv.DictWriter(handle, FIGURE)
        writer.writeheader()
        writer.writerows({**FIGURE, **change} for change in changes)
    return read_deep_learning_examples(folder)


def inference(folder: Path, *changes: dict[str, Any]) -> Imported:
    table = pa.Table.from_pylist([{**FIGURE, **change} for change in changes])
    pq.write_table(table, folder / "nvidia_dle_inference.parquet")
    return read_deep_learning_examples(folder)


def test_a_figure_of_one_gpu_is_a_step(tmp_path: Path) -> None:
    (step,) = training(tmp_path, {}).steps
    assert (step.job.model, step.job.mode) == ("zoo/gnmt", Mode.TRAINING)
    assert (step.job.optimizer, step.job.precision) == ("adam", Precision.FP32)
    assert step.samples_per_second == pytest.approx(1000)  # 48.8 tokens a pair
    assert step.step_time_s == pytest.approx(0.1)
    assert step.job.software == {"torch": "1.6.0", "cuda": "11.0"}
    assert (step.origin.file, step.origin.line) == ("PyTorch/Translation/GNMT/README.md", 42)


def test_several_gpus_are_a_placement(tmp_path: Path) -> None:
    (record,) = training(tmp_path, {"num_gpus": 8}).placements
    assert record.placement.accelerator_count == 8
    # 8 x 100 pairs; the throughput, 1000 pairs/s, is of all GPUs together
    assert record.step_time_s == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("precision", "layout"),
    [("amp_fp16", MemoryFormat.CHANNELS_LAST), ("tf32", MemoryFormat.CHANNELS_FIRST)],
)
def test_mixed_precision_of_images_runs_channels_last(
    tmp_path: Path, precision: str, layout: MemoryFormat
) -> None:
    (step,) = inference(tmp_path, {**IMAGES, "precision": precision}).steps
    assert (step.job.model, step.job.mode) == ("timm/resnext101_32x4d", Mode.INFERENCE)
    assert step.job.model_kwargs == {"img_size": 224}
    assert step.job.memory_format is layout


def test_a_release_read_as_a_number_gets_its_zero_back(tmp_path: Path) -> None:
    (step,) = inference(tmp_path, {**IMAGES, "ngc_container": 22.1}).steps
    assert step.job.software == {"torch": "1.13.0", "cuda": "11.8"}  # 22.10


def test_a_page_with_two_models_is_told_apart_by_the_unit(tmp_path: Path) -> None:
    page = {"readme": "PyTorch/SpeechSynthesis/Tacotron2/README.md"}
    found = training(
        tmp_path,
        {**page, "unit": "mels/s", "throughput": 5650.0},
        {**page, "unit": "samples/s", "throughput": 16000.0},
    )
    # 565 frames of a clip; 8000 audio samples of a segment
    rates = {step.job.model: step.samples_per_second for step in found.steps}
    assert rates == pytest.approx({"zoo/tacotron2": 10.0, "zoo/waveglow": 2.0})


def test_an_adaptive_softmax_is_another_model(tmp_path: Path) -> None:
    page = {"readme": "PyTorch/LanguageModeling/Transformer-XL/README.md"}
    row = {**page, "section_variant": "Base model", "throughput": 1920.0}
    (record,) = training(tmp_path, row).placements
    assert (record.job, record.job_type) == (None, "transformer-xl-base-adaptive")
    assert record.step_time_s == pytest.approx(100 / (1920 / 192))


def test_only_fine_tuning_has_the_head_of_the_workload(tmp_path: Path) -> None:
    found = training(tmp_path, BERT, {**BERT, "section_variant": "Pre-training", "seq_len": 512})
    (step,) = found.steps
    assert (step.job.model, step.job.sequence_length) == ("zoo/bert-large-squad", 384)
    assert (step.job.software["attention"], step.job.software["apex"]) == ("eager", "O2")
    assert [row.line for row in found.rejected] == [3]


def test_figures_of_one_point_are_one_record_if_they_agree(tmp_path: Path) -> None:
    rates = (48800.0, 51240.0)  # 1000 and 1050 pairs/s
    (step,) = training(tmp_path, *({"throughput": rate} for rate in rates)).steps
    assert (step.samples_per_second, step.repeats) == (pytest.approx(1025), 2)
    assert step.spread == pytest.approx(50 / 1025)


def test_figures_of_one_point_that_contradict_each_other_are_left_out(tmp_path: Path) -> None:
    found = training(tmp_path, {"throughput": 48800.0}, {"throughput": 97600.0})
    assert not found.steps
    assert [row.line for row in found.rejected] == [2, 3]
    assert "differ by more than 20%" in found.rejected[0].reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"readme": "TensorFlow/Translation/GNMT/README.md"}, "TensorFlow runs other operators"),
        ({"readme": "PyTorch/Classification/ConvNets/README.md"}, "repeats the pages"),
        ({"readme": "PyTorch/Games/Chess/README.md"}, "no workload for Games/Chess"),
        ({"batch_per_gpu": None}, "no batch_per_gpu"),
        ({"precision": None}, "no precision"),
        ({"unit": "sentences/s?"}, "unit 'sentences/s?'"),
        ({"device": "ZX-1"}, "Unknown accelerator 'ZX-1'"),
        (
            {
                "readme": "PyTorch/Classification/ConvNets/efficientnet/README.md",
                "variant": "efficientnet-b0",
                "unit": "img/s",
            },
            "optimizer of efficientnet-b0 cannot be captured",
        ),
    ],
)
def test_rows_that_say_too_little_are_rejected(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    found = training(tmp_path, change)
    assert not found.steps
    assert not found.placements
    (row,) = found.rejected
    assert (row.file, row.line) == ("nvidia_dle_training.csv", 2)
    assert reason in row.reason


def test_translating_word_by_word_is_another_workload(tmp_path: Path) -> None:
    (row,) = inference(tmp_path, {}).rejected
    assert row.reason == "inference of gnmt is not what the workload does"


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nvidia_dle_training"):
        read_deep_learning_examples(tmp_path)


def test_a_page_without_a_container_ran_in_one_of_its_time(tmp_path: Path) -> None:
    (step,) = training(tmp_path, {**BERT, "ngc_container": None}).steps
    assert step.job.software["torch"] == "1.9.0"

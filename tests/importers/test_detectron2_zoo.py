"""The model zoo of Detectron2: detectors on eight V100 and one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perfmodel.engines.local_engine import LocalEngine
from perfmodel.importers.frameworks.detectron2_zoo import TABLE, read_detectron2_zoo
from perfmodel.importers.registry import read_format
from perfmodel.training.samples.corpus import build_corpus
from perfmodel.types import Mode, Precision

FOLDER = os.environ.get("PERFMODEL_DATA")
HEADER = "config,train_s_per_iter,infer_s_per_image,device"
DEVICE = '"V100-SXM2 (8x train, global batch 16; 1x infer, batch 1)"'
MASK = "configs/COCO-InstanceSegmentation/mask_rcnn_X_101_32x8d_FPN_3x.yaml"


def _read(folder: Path, *lines: str) -> Any:
    (folder / TABLE.files[0]).write_text("\n".join([HEADER, *lines]) + "\n")
    return read_detectron2_zoo(folder)


def test_a_row_is_a_step_and_a_placement(tmp_path: Path) -> None:
    found = _read(tmp_path, f"{MASK},0.5,0.125,{DEVICE}")
    (step,), (placement,) = found.steps, found.placements
    assert (step.job.model, dict(step.job.model_kwargs)) == ("zoo/mask-rcnn", {"trunk": "x101"})
    assert (step.job.mode, step.job.batch_size) == (Mode.INFERENCE, 1)
    assert step.step_time_s == pytest.approx(0.125)
    assert step.accelerator == "V100-SXM2-16GB" and step.job.precision is Precision.FP32
    assert placement.placement.accelerator_count == 8 and placement.placement.plan.data == 8
    # 16 images on 8 GPUs.
    assert (placement.batch_size, placement.job.batch_size) == (2, 2)
    assert placement.step_time_s == 0.5 and placement.job.model_kwargs["height"] == 736


def test_schedules_and_repeats_of_a_model_are_one_record(tmp_path: Path) -> None:
    first = "configs/COCO-Detection/retinanet_R_50_FPN_1x.yaml"
    lines = [f"{first},0.2,0.05,{DEVICE}", f"{first.replace('1x', '3x')},0.21,0.06,{DEVICE}"]
    found = _read(tmp_path, *lines, lines[0])
    (step,), (placement,) = found.steps, found.placements
    assert (step.repeats, step.step_time_s) == (3, pytest.approx(0.05))
    assert placement.step_time_s == 0.2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"configs/COCO-Detection/faster_rcnn_R_50_C4_1x.yaml,0.5,0.1,{DEVICE}", "C4"),
        (f"configs/Misc/mask_rcnn_R_50_FPN_3x_gn.yaml,0.3,0.06,{DEVICE}", "Misc"),
        (f"{MASK},0.5,0.1,A100", "device 'A100'"),
        (f"{MASK},,0.1,{DEVICE}", "no train_s_per_iter"),
    ],
)
def test_what_is_not_understood_is_said(tmp_path: Path, line: str, reason: str) -> None:
    found = _read(tmp_path, line)
    assert not found.steps and not found.placements
    assert reason in found.rejected[0].reason


def test_detectors_become_samples(tmp_path: Path) -> None:
    found = _read(tmp_path, f"{MASK},0.5,0.125,{DEVICE}")
    corpus = build_corpus(found.steps, cache=tmp_path / "cache", engine=LocalEngine())
    (sample,) = corpus.samples
    assert (sample.family, sample.source) == ("rcnn", "detectron2")


@pytest.mark.skipif(not FOLDER, reason="PERFMODEL_DATA names no folder of tables")
def test_heads_and_deeper_trunks_cost_time_in_the_published_table() -> None:
    found = read_format("detectron2", Path(str(FOLDER)))
    times = {(s.job.model, s.job.model_kwargs["trunk"]): s.step_time_s for s in found.steps}
    assert len(times) > 4
    for (model, trunk), time_s in times.items():
        if trunk == "x101" and (model, "r50") in times:
            assert time_s > times[model, "r50"]
    assert len(found.steps) == len(found.placements)

"""Import the model zoo of Detectron2: detectors trained on eight V100 and asked on one.

``detectron2_zoo.csv`` holds the tables of the page, a model a row: seconds of a training step of 16
images, and of an image in inference. Read are Faster, Mask and Keypoint R-CNN over a feature
pyramid, and RetinaNet, on COCO. Images are of the mean size of the configuration files for photos
of 4:3, rounded up to 32 pixels: the short side is 640 to 800 in training and 800 in inference. Rows
that other parts of the page repeat are one record.

Left out, with the reason: detectors of one map (C4, DC5), whose heads are others; LVIS, panoptic
and cascaded heads; norms that are no frozen batch norms; boxes computed before; and the new
baselines, whose heads and crops are others. Times of inference include the suppression of
overlapping boxes and the pasting of masks, which the graphs have not.

Reference: facebookresearch/detectron2, MODEL_ZOO.md, Apache-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.graph.job import Job
from perfmodel.importers.public_tables import PublicTable, Row, positive, text
from perfmodel.importers.published import Imported, Origin, PublishedPlacement, PublishedStep
from perfmodel.importers.repeats import newest_placements, one_record_each
from perfmodel.placement.topology.topology import Node, Placement, Plan
from perfmodel.types import Mode, Precision

ACCELERATOR = "V100-SXM2-16GB"
TABLE = PublicTable(
    files=("detectron2_zoo.csv", "detectron2_zoo.parquet"),
    source="facebookresearch/detectron2 MODEL_ZOO.md",
    licence="Apache-2.0",
    columns=("config", "train_s_per_iter", "infer_s_per_image", "device"),
)

_GPUS, _IMAGES = 8, 2
_TRAINED: Mapping[str, int] = MappingProxyType({"height": 736, "width": 992})
#: Release that the page states, of 2019-10.
_SOFTWARE: Mapping[str, str] = MappingProxyType({"torch": "1.3.0"})
_NAME = re.compile(
    r"configs/COCO-(?:Detection|InstanceSegmentation|Keypoints)/"
    r"(faster_rcnn|mask_rcnn|keypoint_rcnn|retinanet)_([RX])_(50|101)(?:_32x8d)?_FPN_\dx\.yaml"
)


def read_detectron2_zoo(path: Path) -> Imported:
    """Read the table, or that of a folder; a placement and a step a row."""
    detectors, rejected = TABLE.records(path, _detector)
    return Imported(
        steps=one_record_each(step for step, _ in detectors),
        placements=newest_placements(placement for _, placement in detectors),
        rejected=rejected,
    )


def _detector(row: Row, origin: Origin) -> tuple[PublishedStep, PublishedPlacement]:
    config = text(row, "config")
    match = _NAME.fullmatch(config)
    if match is None:
        raise ValueError(f"no reference workload stands for {config.removeprefix('configs/')}")
    if not text(row, "device").startswith("V100-SXM2 (8x train"):
        raise ValueError(f"device {row['device']!r} is not understood")
    asked, trained = _job(match, Mode.INFERENCE), _job(match, Mode.TRAINING)
    step = PublishedStep(
        job=asked,
        accelerator=ACCELERATOR,
        samples_per_second=1.0 / positive(row, "infer_s_per_image"),
        origin=origin,
    )
    placement = PublishedPlacement(
        job=trained,
        job_type=match[1],
        batch_size=_IMAGES,
        placement=Placement(
            nodes=(Node(accelerator=ACCELERATOR, count=_GPUS, link="nvlink"),),
            plan=Plan(data=_GPUS),
        ),
        step_time_s=positive(row, "train_s_per_iter"),
        origin=origin,
    )
    return step, placement


def _job(match: re.Match[str], mode: Mode) -> Job:
    kwargs: dict[str, Any] = {"trunk": f"{match[2].lower()}{match[3]}"}
    training = mode is Mode.TRAINING
    return Job(
        model=f"zoo/{match[1].replace('_', '-')}",
        model_kwargs={**kwargs, **(_TRAINED if training else {})},
        mode=mode,
        batch_size=_IMAGES if training else 1,
        precision=Precision.FP32,
        optimizer="momentum",
        software=_SOFTWARE,
    )

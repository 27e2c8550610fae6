from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.errors import StoreError
from perfmodel.importers.jobs.sia_traces import read_sia
from perfmodel.placement.topology.topology import Node
from perfmodel.types import Precision
from perfmodel.zoo.references.reference import build_reference


def _table(folder: Path, model: str, cluster: str, *rows: str, order: str = "first") -> Path:
    file = folder / model / f"placements-{cluster}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    header = "placement,local_bsz,step_time,sync_time"
    if order == "last":
        header = "local_bsz,step_time,sync_time,placement"
    file.write_text("\n".join((header, *rows)) + "\n")
    return file


def test_digits_are_accelerators_of_nodes(tmp_path: Path) -> None:
    _table(tmp_path, "bert", "aws", "1442,6,0.9,0.2")
    (record,) = read_sia(tmp_path).placements
    assert record.placement.nodes == (
        Node(accelerator="T4", count=1),
        Node(accelerator="T4", count=2),
        Node(accelerator="T4", count=4, repeat=2),
    )
    assert record.placement.accelerator_count == 11 and record.placement.host_count == 4
    assert (record.step_time_s, record.sync_time_s, record.batch_size) == (0.9, 0.2, 6)
    assert record.placement.network is not None
    assert record.placement.network.bandwidth_bytes_per_s == 50e9 / 8


def test_one_node_needs_no_network(tmp_path: Path) -> None:
    _table(tmp_path, "bert", "azure", "6,0.9,0.2,8", order="last")
    (record,) = read_sia(tmp_path).placements
    assert record.placement.network is None
    assert record.placement.nodes == (Node(accelerator="V100-SXM2-32GB", count=8),)


def test_one_accelerator_is_also_a_step(tmp_path: Path) -> None:
    _table(tmp_path, "imagenet", "rtx", "1,30,0.15,0.001", "2,30,0.2,0.01")
    imported = read_sia(tmp_path)
    assert len(imported.placements) == 2
    (step,) = imported.steps
    assert step.samples_per_second == pytest.approx(30 / 0.15)
    assert step.accelerator == "RTX-2080Ti" and step.job.precision is Precision.AMP_FP16


def test_fp32_is_tf32_where_the_device_can(tmp_path: Path) -> None:
    for cluster in ("rtx", "dgx"):
        _table(tmp_path, "cifar10", cluster, "1,30,0.15,0.001")
    found = {s.accelerator: s.job.precision for s in read_sia(tmp_path).steps}
    assert found == {"A100-SXM4-40GB": Precision.TF32, "RTX-2080Ti": Precision.FP32}


def test_ncf_is_that_of_movielens_1m(tmp_path: Path) -> None:
    _table(tmp_path, "ncf", "rtx", "1,64,0.01,0.001")
    (step,) = read_sia(tmp_path).steps
    bundle = build_reference("ncf", step.job.model_kwargs, batch_size=1)
    # Vectors of 32 and of 128 numbers; a perceptron 256-128-64-32; a score from 32 + 32.
    deep = (256 * 128 + 128) + (128 * 64 + 64) + (64 * 32 + 32)
    assert bundle.parameter_count == (6040 + 3706) * (32 + 128) + deep + 65


def test_yolov3_sees_images_of_their_mean_area(tmp_path: Path) -> None:
    _table(tmp_path, "yolov3", "quad", "1,8,0.4,0.001")
    (step,) = read_sia(tmp_path).steps
    side = step.job.model_kwargs["img_size"]
    areas = [(32 * cells) ** 2 for cells in range(10, 20)]
    assert side**2 == pytest.approx(sum(areas) / len(areas), rel=0.05)
    # 20 classes in place of 80: 3 x 60 scores a cell fewer, of maps of 1024, 512, 256 channels.
    bundle = build_reference("yolov3", step.job.model_kwargs, batch_size=1)
    assert bundle.parameter_count == 61_949_149 - 3 * 60 * (1024 + 512 + 256 + 3)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("5,8,0.4,0.1", "more than 4"),
        ("10,8,0.4,0.1", "no digit above zero"),
        ("1,8,0.1,0.4", "longer than the step"),
        ("1,8,0.1,", "no sync_time"),
        ("1,8,0.1,nan", "no time"),
        ("1,0,0.1,0.01", "no finite number above zero"),
    ],
)
def test_rows_that_say_nothing_are_reported(tmp_path: Path, row: str, reason: str) -> None:
    _table(tmp_path, "bert", "aws", row)
    (rejected,) = read_sia(tmp_path).rejected
    assert reason in rejected.reason and rejected.line == 2
    assert rejected.file == "bert/placements-aws.csv"


def test_an_unknown_cluster_is_reported_as_a_whole(tmp_path: Path) -> None:
    _table(tmp_path, "bert", "moon", "1,8,0.4,0.1")
    (rejected,) = read_sia(tmp_path).rejected
    assert rejected.line == 0


def test_a_clone_is_found(tmp_path: Path) -> None:
    _table(tmp_path / "sia-simulator" / "traces", "bert", "aws", "1,8,0.4,0.1")
    assert len(read_sia(tmp_path).placements) == 1
    with pytest.raises(StoreError, match="name the folder"):
        read_sia(tmp_path / "sia-simulator" / "traces" / "bert" / "absent")

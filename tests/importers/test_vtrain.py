from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.errors import StoreError
from perfmodel.importers.language_models.vtrain import read_vtrain
from perfmodel.placement.topology.topology import Plan

HEADER = (
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)"
)


def _table(folder: Path, *rows: str) -> Path:
    file = folder / "ground_truth_single.csv"
    file.write_text("\n".join((HEADER, *rows)) + "\n", encoding="utf-8-sig")
    return file


def test_a_row_is_a_plan_and_a_job(tmp_path: Path) -> None:
    _table(tmp_path, "4,48,3,96,6,10,512,2,1,2,125.0")
    (record,) = read_vtrain(tmp_path).placements
    assert record.placement.plan == Plan(data=1, tensor=2, pipeline=2)
    assert record.placement.accelerator_count == 4
    assert record.step_time_s == 0.125
    job = record.job
    assert job is not None and job.sequence_length == 512 and job.activation_checkpointing
    assert dict(job.model_kwargs) == {"num_layers": 10, "hidden_size": 96, "num_heads": 6}
    assert (job.batch_size, job.accumulation_steps) == (3, 16)  # 48 / (3 x 1)


def test_one_accelerator_is_also_a_step(tmp_path: Path) -> None:
    _table(tmp_path, "1,8,2,96,6,10,512,1,1,1,400")
    (step,) = read_vtrain(tmp_path).steps
    assert step.samples_per_second == pytest.approx(8 / 0.4)
    assert step.step_time_s == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("4,48,3,96,6,10,512,2,2,2,125", "the plan needs 8 GPUs"),
        ("16,48,3,96,6,10,512,2,8,1,125", "do not fit one node"),
        ("2,7,2,96,6,10,512,1,2,1,125", "no multiple"),
        ("2,8,2,96,6,9,512,1,1,2,125", "pipeline stages"),
        ("2,8,2,96,6,10,512,1,1,2,", "no iteration time"),
        ("2,8,2,96,6,10,512,1,1,2,-3", "no finite number above zero"),
    ],
)
def test_rows_that_say_nothing_are_reported(tmp_path: Path, row: str, reason: str) -> None:
    _table(tmp_path, row)
    imported = read_vtrain(tmp_path)
    assert not imported.placements
    assert imported.rejected[0].line == 2 and reason in imported.rejected[0].reason


def test_a_clone_and_a_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = _table(tmp_path / "data", "2,8,2,96,6,10,512,1,1,2,50")
    assert read_vtrain(tmp_path).placements == read_vtrain(file).placements


def test_another_table_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ground_truth_single.csv"
    file.write_text("a,b\n1,2\n")
    with pytest.raises(StoreError, match="lacks the columns"):
        read_vtrain(file)
    with pytest.raises(StoreError, match="No ground_truth_single"):
        read_vtrain(tmp_path / "absent")

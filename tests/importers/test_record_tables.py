import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from perfmodel.graph.job import Job
from perfmodel.importers.published import (
    Imported,
    Origin,
    PublishedCollective,
    PublishedKernel,
    PublishedLoader,
    PublishedPlacement,
    PublishedStep,
    RejectedRow,
)
from perfmodel.importers.record_tables import (
    KINDS,
    SCHEMAS,
    accelerator_of,
    records_of,
    row_of,
    write_records,
    write_rejected,
)
from perfmodel.placement.topology.topology import Node, Placement
from perfmodel.types import Mode

ORIGIN = Origin(source="made up", licence="none", file="a.csv", line=7)
ONE_OF_EACH = Imported(
    steps=(
        PublishedStep(
            job=Job(model="zoo/mlp", mode=Mode.TRAINING, batch_size=8, accumulation_steps=2),
            accelerator="T4",
            samples_per_second=32.0,
            origin=ORIGIN,
        ),
    ),
    kernels=(
        PublishedKernel(
            op="gemm", accelerator="T4", dtype="fp16", shape={"m": 2}, time_s=1e-3, origin=ORIGIN
        ),
    ),
    collectives=(
        PublishedCollective(
            collective="all_reduce",
            accelerator="T4",
            ranks=4,
            hosts=1,
            size_bytes=1024,
            time_s=1e-5,
            topology="pcie3",
            origin=ORIGIN,
        ),
    ),
    placements=(
        PublishedPlacement(
            job=None,
            job_type="chess",
            batch_size=8,
            placement=Placement(nodes=(Node(accelerator="T4", count=4),)),
            step_time_s=0.5,
            origin=ORIGIN,
            settings={"loader": "fast"},
        ),
    ),
    loaders=(
        PublishedLoader(
            input_kind="tokens",
            accelerator="T4",
            cpu_cores=4,
            workers=2,
            samples_per_second=1e4,
            stored_bytes=2048.0,
            files=0.0,
            source_pixels=0.0,
            side_pixels=0,
            sequence_length=1024,
            tensor_bytes=8192.0,
            locality="memory",
            origin=ORIGIN,
        ),
    ),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_fills_exactly_the_columns_of_its_kind(kind: str) -> None:
    (record,) = records_of(ONE_OF_EACH, kind)  # type: ignore[arg-type]
    assert row_of(record, kind).keys() == SCHEMAS[kind].keys()  # type: ignore[arg-type,index]
    assert accelerator_of(record) == "T4"


def test_tables_come_back_as_they_were_written(tmp_path: Path) -> None:
    files = write_records(tmp_path / "new", ONE_OF_EACH)
    assert {file.name for file in files.values()} == {f"{kind}.parquet" for kind in KINDS}
    (step,) = pq.read_table(files["steps"]).to_pylist()
    # 8 samples x 2 micro-batches / 32 samples/s = 0.5 s
    assert (step["step_time_s"], step["memory_bytes"], step["line"]) == (0.5, None, 7)
    assert json.loads(step["job"])["model"] == "zoo/mlp"
    (placement,) = pq.read_table(files["placements"]).to_pylist()
    assert placement["job"] is None
    assert json.loads(placement["placement"])["nodes"][0]["count"] == 4
    assert json.loads(placement["settings"]) == {"loader": "fast"}


def test_a_kind_without_records_has_no_table(tmp_path: Path) -> None:
    assert list(write_records(tmp_path, Imported(kernels=ONE_OF_EACH.kernels))) == ["kernels"]


def test_rejected_rows_are_listed_with_their_reason(tmp_path: Path) -> None:
    write_rejected(tmp_path / "r.csv", [RejectedRow(file="a.csv", line=3, reason='no "unit", why')])
    with (tmp_path / "r.csv").open(newline="") as handle:
        assert list(csv.reader(handle)) == [
            ["file", "line", "reason"],
            ["a.csv", "3", 'no "unit", why'],
        ]

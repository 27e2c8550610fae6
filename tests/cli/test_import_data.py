"""``perfmodel import`` on small tables with values made up for it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from perfmodel.cli import cli
from perfmodel.importers.registry import FORMATS

HEADER = "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "timm").mkdir()
    table = tmp_path / "timm" / "benchmark-infer-fp32-nchw-pt240-cu124-rtx4090.csv"
    table.write_text(HEADER + "made_up_net,160,2000.0,128.0,256.0\nother_net,160,,,256\n")
    return tmp_path


def run(*args: str | Path, data: Path | None = None) -> Result:
    env = {"PERFMODEL_DATA": str(data) if data else None}
    return CliRunner().invoke(cli, ["import", *map(str, args)], env=env)


def test_records_and_reasons_are_counted(data: Path) -> None:
    shown = run("timm", data / "timm", "--json")
    assert shown.exit_code == 0
    summary = json.loads(shown.stdout)
    assert {kind: count for kind, count in summary["records"].items() if count} == {"steps": 1}
    assert summary["devices"] == {"steps": {"RTX-4090": 1}}
    assert summary["rejected"] == {"no infer_samples_per_sec": 1}


def test_the_environment_names_the_folder(data: Path) -> None:
    assert "1 steps" in run("timm", data=data).stdout
    refused = run("timm")
    assert refused.exit_code == 2
    assert "PERFMODEL_DATA" in refused.stderr


def test_records_and_rejected_rows_are_written(data: Path) -> None:
    shown = run("timm", "--out", data / "new", "--rejected", data / "r.csv", data=data)
    assert shown.exit_code == 0
    assert "Left out: 1 rows." in shown.stdout
    assert pq.read_table(data / "new" / "steps.parquet").num_rows == 1
    assert "no infer_samples_per_sec" in (data / "r.csv").read_text()


def test_records_are_replaced_where_that_is_said(data: Path) -> None:
    held = data / "new" / "kernels.parquet"
    held.parent.mkdir()
    held.touch()
    refused = run("timm", "--out", held.parent, data=data)
    assert refused.exit_code == 2
    assert "holds records already: kernels.parquet" in refused.stderr
    assert run("timm", "--out", held.parent, "--replace", data=data).exit_code == 0
    assert [one.name for one in held.parent.iterdir()] == ["steps.parquet"]
    nothing = data / "trace.json"
    nothing.write_text('{"no": "trace"}')
    assert run("trace", nothing, "--out", held.parent, "--replace").exit_code == 4
    assert [one.name for one in held.parent.iterdir()] == ["steps.parquet"]


def test_a_file_without_any_record_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text('{"no": "trace"}')
    shown = run("trace", tmp_path / "trace.json")
    assert shown.exit_code == 4
    assert "no records" in shown.stdout


def test_a_folder_without_any_trace_is_named(tmp_path: Path) -> None:
    refused = run("trace", tmp_path)
    assert refused.exit_code == 4
    assert f"No trace lies in {tmp_path}" in refused.stderr


def test_help_lists_the_formats() -> None:
    shown = run("--help")
    for name in FORMATS:
        assert f"\n  {name} " in shown.output


def test_what_cannot_be_read_has_its_exit_code(data: Path) -> None:
    assert run("tim", data).exit_code == 2
    assert "Did you mean 'timm'?" in run("tim", data).stderr
    assert run("timm", data / "nowhere").exit_code == 2
    assert run("timm", data).exit_code == 4  # a folder without such tables

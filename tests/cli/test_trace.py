"""``perfmodel trace`` and ``perfmodel import trace``."""

from __future__ import annotations

import json
from pathlib import Path

import made_traces as made
import pytest
from click.testing import CliRunner, Result
from made_up_profiles import zip_archive

from perfmodel.cli import cli

pytest.importorskip("torch")


def _run(*args: str, code: int = 0) -> Result:
    shown = CliRunner().invoke(cli, list(args))
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return made.write_trace(tmp_path / "trace.json.gz", made.training_events())


def test_a_trace_is_explained(trace: Path, tmp_path: Path) -> None:
    shown = _run("trace", str(trace), "--models", str(tmp_path), "--top", "2").stdout
    assert "1 x NVIDIA H100 80GB HBM3 = H100-SXM5-80GB" in shown
    assert "2 (marked)" in shown and "100 us (median)" in shown
    assert "aten::mm" in shown and "(collectives)" in shown and "aten::matmul" not in shown


def test_json_has_the_same_and_the_predictions(trace: Path, tmp_path: Path) -> None:
    found = json.loads(_run("trace", str(trace), "--models", str(tmp_path), "--json").stdout)
    assert found["steps"] == {
        "count": 2, "found": "marked", "step_time_s": pytest.approx(100e-6),
        "times_s": [pytest.approx(100e-6)] * 2,
    }  # fmt: skip
    matmul = next(one for one in found["operators"] if one["name"] == "aten::matmul")
    assert (matmul["flops"], matmul["precision"]) == (8192, "fp32")
    # Of what is reduced no types are told.
    assert next(o for o in found["operators"] if o["name"] == "(collectives)")["precision"] is None
    # No model is installed there: the analytical one answers.
    assert matmul["predicted_s"] > 0
    plain = json.loads(_run("trace", str(trace), "--no-predict", "--json").stdout)
    assert all(one["predicted_s"] is None for one in plain["operators"])


def test_what_is_no_trace_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("[1, 2")
    assert "no known trace format" in _run("trace", str(path), code=2).stderr


def test_operators_and_steps_become_records(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "records"
    found = json.loads(
        _run(
            "import", "trace", str(trace), "--model", "timm/resnet50", "--batch-size", "8",
            "--mode", "training", "--out", str(out), "--json",
        ).stdout
    )  # fmt: skip
    # The two products, once each; of the all-reduce and the copy there is no record.
    records = {"steps": 1, "kernels": 2, "collectives": 0, "placements": 0, "loaders": 0}
    assert found["records"] == records
    assert (out / "kernels.parquet").exists() and (out / "steps.parquet").exists()
    assert found["devices"]["steps"] == {"H100-SXM5-80GB": 1}


def test_ranks_need_their_placement(tmp_path: Path) -> None:
    path = made.write_trace(
        tmp_path / "t.json", made.training_events(), distributedInfo={"rank": 0, "world_size": 2}
    )
    job = ("import", "trace", str(path), "--model", "timm/resnet50", "--mode", "training", "--json")
    alone = json.loads(_run(*job).stdout)
    assert alone["records"]["steps"] == 0
    assert any("one of 2 ranks" in reason for reason in alone["rejected"])
    placed = json.loads(_run(*job, "--on", "2xH100-SXM5-80GB").stdout)
    assert placed["records"]["placements"] == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--batch-size", "8"], "Say which job ran"),
        (["--accelerator", "H1000"], "Unknown accelerator"),
        (["--accelerator", "0=T4", "--accelerator", "0=H100"], "once a device"),
        (["--accelerator", "T4", "--accelerator", "H100"], "one NAME for all"),
        (["--accelerator", "0="], "takes one NAME"),
    ],
)
def test_what_is_told_must_make_sense(trace: Path, options: list[str], reason: str) -> None:
    assert reason in _run("import", "trace", str(trace), *options, code=2).stderr


def test_a_job_is_told_of_traces_alone(tmp_path: Path) -> None:
    shown = _run("import", "timm", str(tmp_path), "--batch-size", "8", code=2)
    assert "says itself what ran" in shown.stderr


def test_a_cut_trace_is_explained_and_not_imported(trace: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    whole = json.dumps(made.document(made.training_events()))
    cut.write_text(whole[:-400])
    shown = _run("trace", str(cut), "--no-predict").stdout
    assert "Note: The trace is cut" in shown
    imported = json.loads(_run("import", "trace", str(cut), "--json", code=4).stdout)
    assert imported["records"]["kernels"] == 0
    assert any("ends too early" in reason for reason in imported["rejected"])


def test_one_device_is_looked_at_alone(tmp_path: Path) -> None:
    on_other = [made.launch(99, 1094.0), made.kernel("volta_sgemm", 99, 1095.0, 40.0, device=1)]
    events = [*made.training_events(), *on_other]
    path = made.write_trace(
        tmp_path / "t.json", events, deviceProperties=[made.H100, {"id": 1, "name": "Tesla T4"}]
    )
    both = json.loads(_run("trace", str(path), "--no-predict", "--json").stdout)
    assert any("T4 as device 1" in note and "--device NUMBER" in note for note in both["notes"])
    alone = json.loads(_run("trace", str(path), "--no-predict", "--json", "--device", "1").stdout)
    assert (alone["accelerator"], alone["device_time_s"]) == ("T4", pytest.approx(40e-6))
    assert [one["device"] for one in alone["device_times"]] == [1]
    absent = _run("trace", str(path), "--no-predict", "--device", "7", code=2)
    assert "Nothing ran on device 7; what ran did so on 0, 1." in absent.stderr


def test_the_member_of_an_archive_is_named(trace: Path, tmp_path: Path) -> None:
    other = made.write_trace(tmp_path / "other.json", made.training_events(1))
    path = tmp_path / "run.zip"
    path.write_bytes(zip_archive({"a/0.json.gz": trace.read_bytes(), "1.json": other.read_bytes()}))
    assert "--member NAME" in _run("trace", str(path), code=2).stderr
    shown = _run("trace", str(path), "--no-predict", "--member", "a/0.json.gz").stdout
    assert "2 (marked)" in shown


def test_what_was_told_of_a_device_and_did_not_count_is_said(trace: Path) -> None:
    told = ("--accelerator", "0=A100-SXM4-80GB", "--accelerator", "3=T4")
    assert (
        "Note: No device 3 ran in these traces" in _run("import", "trace", str(trace), *told).stdout
    )
    found = json.loads(_run("import", "trace", str(trace), *told, "--json").stdout)
    assert found["devices"] == {"kernels": {"A100-SXM4-80GB": 2}}

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_up_process_records import collective, loader

from perfmodel.cli.app import cli
from perfmodel.errors import MeasurementError
from perfmodel.profilers import device_lock
from perfmodel.profilers.distributed import collective_runs, ranks
from perfmodel.profilers.feeding import loader_runs
from perfmodel.store.profiles.process_store import ProcessStore


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let measurements be made up: three ranks hang, all else answers at once."""

    def collectives(cells: Any, count: int, **_: Any) -> list[Any]:
        if count == 3:
            raise MeasurementError("rank 2 gave no answer within 240 s and was ended.")
        return [collective(collective=c.collective, size_bytes=c.size_bytes) for c in cells]

    def loaders(form: Any, *, workers: Any, **_: Any) -> list[Any]:
        return [loader(workers=count, input_kind=form.kind) for count in workers]

    monkeypatch.setattr(collective_runs, "measure_collectives", collectives)
    monkeypatch.setattr(ranks, "describe_cpu_share", lambda shares: None)
    monkeypatch.setattr(loader_runs, "measure_loaders", loaders)
    # Whoever measures on this machine meanwhile holds its lock.
    monkeypatch.setattr(device_lock, "machine_lock", nullcontext)
    monkeypatch.setattr("perfmodel.devices.local_cpu.LocalCpu.describe", lambda self: None)


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["measure", *arguments])


def test_what_is_measured_is_stored_and_shown(replayed: None, tmp_path: Path) -> None:
    shown = _run("collectives", "--size-bytes", "4096", "--out", str(tmp_path))
    assert shown.exit_code == 0, shown.output
    assert "all_reduce 4096 ranks=2" in shown.stdout and "1 ms" in shown.stdout
    assert "[1/1] 5 collectives between 2 ranks" in shown.stderr
    assert len(ProcessStore(tmp_path).records("collectives")) == 5
    assert len(list(tmp_path.glob("*/collectives-*.parquet"))) == 1


def test_one_that_fails_does_not_end_the_others(replayed: None, tmp_path: Path) -> None:
    both = ("--ranks", "3", "--ranks", "2", "--collective", "broadcast", "--size-bytes", "8")
    shown = _run("collectives", *both, "--out", str(tmp_path), "--json")
    assert shown.exit_code == 1
    answer = json.loads(shown.stdout)
    assert [one["collective"] for one in answer["measured"]] == ["broadcast"]
    (failed,) = answer["failed"]
    assert failed["reason"].startswith("rank 2 gave no answer")
    assert _run("collectives", "--ranks", "3", "--out", str(tmp_path)).exit_code == 4


def test_loaders_of_every_kind(replayed: None, tmp_path: Path) -> None:
    shown = _run("loaders", "--workers", "0", "--workers", "4", "--out", str(tmp_path), "--json")
    kinds = [one["input_kind"] for one in json.loads(shown.stdout)["measured"]]
    assert kinds == [k for k in ("image_jpeg", "image_raw", "tokens", "tabular") for _ in range(2)]


def test_jobs_that_cannot_run_are_bad_input(replayed: None, tmp_path: Path) -> None:
    shown = _run("replicas", "zoo/ncf", "--out", str(tmp_path))
    # Without --mode a job is inference, whose replicas share nothing.
    assert shown.exit_code == 4 and "mode training" in shown.stderr
    shown = _run("loaders", "--kind", "video")
    assert shown.exit_code == 2 and "image_jpeg" in shown.stderr

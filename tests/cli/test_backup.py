"""``perfmodel backup`` and ``restore`` on a service that runs, answers and is killed."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
from asking import Service
from click.testing import CliRunner, Result
from service_process import service_process
from small_disks import leave_free, small_disk

from perfmodel.cli import cli

JOB = {"model": "zoo/mlp", "mode": "training", "batch_size": 64}


def _run(*args: str | Path, code: int = 0) -> Result:
    shown = CliRunner().invoke(cli, [str(one) for one in args])
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


def _observe(service: Service, key: str) -> None:
    seen = {"job": JOB, "placement": "T4", "step_time_s": 0.01, "key": key}
    answer = service.ask("/v1/observations", {"observations": [seen]})
    assert answer["observations"][0]["status"] == "accepted", answer


def _remembered(service: Service) -> dict[str, Any]:
    paths = ("/v1/jobs", "/v1/observations?limit=500", "/v1/prices", "/v1/accelerators/our-npu")
    answer = service.ask("/v1/predict", {"job": JOB, "placement": "2xT4"})
    return {**{path: service.ask(path) for path in paths}, "predicted": answer}


def test_a_restored_service_knows_what_was_acknowledged(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    archive = tmp_path / "state.tar"
    with service_process(f"sqlite:///{old}/state.db", old) as (_, service):
        service.ask("/v1/prices/T4", {"per_hour": 0.5}, method="PUT")
        service.ask("/v1/accelerators/NPU-1-32GB", _NPU, method="PUT")
        service.ask("/v1/accelerators/NPU-1-32GB/aliases/our-npu", method="PUT")
        for number in range(4):
            _observe(service, f"before-{number}")
        done = threading.Event()
        acknowledged: list[str] = []

        def write() -> None:
            while not done.is_set():
                _observe(service, key := f"during-{len(acknowledged)}")
                acknowledged.append(key)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            while len(acknowledged) < 2:
                assert writer.is_alive()
            sure = [*acknowledged]
            shown = _run("backup", archive, "--database", f"sqlite:///{old}/state.db", "--json")
        finally:
            done.set()
            writer.join()
    manifest = json.loads(shown.stdout)
    assert manifest["rows"]["observations"] >= 4 + len(sure)
    assert archive.stat().st_mode & 0o077 == 0

    said = _run("restore", archive, "--database", f"sqlite:///{new}/state.db").stdout
    assert "observations" in said
    with service_process(f"sqlite:///{new}/state.db", new) as (_, service):
        first = _remembered(service)
        keys = {one["key"] for one in first["/v1/observations?limit=500"]["observations"]}
        assert {*sure, *(f"before-{number}" for number in range(4))} <= keys
        # It goes on from there.
        _observe(service, "after")
    again = tmp_path / "again"
    _run("restore", archive, "--database", f"sqlite:///{again}/state.db")
    with service_process(f"sqlite:///{again}/state.db", again) as (_, service):
        assert _remembered(service) == first


_NPU = {
    "kind": "npu", "vendor": "Example", "architecture": "First", "form_factor": "PCIe",
    "peak_flops": {"fp32": 2e13, "bf16": 1.6e14}, "memory_bytes": 34359738368,
    "bandwidth_bytes_per_s": 1.2e12, "link": "pcie5", "link_bandwidth_bytes_per_s": 6.3e10,
}  # fmt: skip


@pytest.fixture
def state(migrated_file: Path, tmp_path: Path) -> Path:
    """Return an empty database with keys and an audit log beside it."""
    path = tmp_path / "state.db"
    path.write_bytes(migrated_file.read_bytes())
    (tmp_path / "keys.json").write_text('{"keys": []}')
    (tmp_path / "audit.jsonl").write_text('{"who": "someone"}\n')
    return path


def test_keys_audit_and_settings_are_in_it_and_no_secrets(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMODEL_MAX_CELLS", "1000")
    monkeypatch.setenv("PERFMODEL_KEY", "pmk_secret")
    monkeypatch.setenv("PERFMODEL_MODELS", "s3://me:secret@host/models")
    archive, target = tmp_path / "state.tar", tmp_path / "elsewhere" / "state.db"
    _run("backup", archive, "--database", state)
    assert b"secret" not in archive.read_bytes()
    with tarfile.open(archive) as tar:
        settings = tar.extractfile("settings.json")
        assert settings is not None
        assert json.load(settings)["PERFMODEL_MAX_CELLS"] == "1000"
    _run("restore", archive, "--database", target)
    for name in ("keys.json", "audit.jsonl"):
        assert (target.parent / name).read_text() == (tmp_path / name).read_text()


def test_what_is_there_is_put_aside_and_only_when_told_to(state: Path, tmp_path: Path) -> None:
    archive = tmp_path / "state.tar"
    _run("backup", archive, "--database", state)
    assert "there already" in _run("backup", archive, "--database", state, code=2).stderr
    before = state.read_bytes()
    assert "--replace" in _run("restore", archive, "--database", state, code=2).stderr
    assert state.read_bytes() == before
    shown = _run("restore", archive, "--database", state, "--replace", "--json")
    aside = [Path(path) for path in json.loads(shown.stdout)["aside"]]
    assert len(aside) == 3 and aside[0].read_bytes() == before


def test_a_restore_needs_room_for_the_database_once_and_else_changes_nothing(
    state: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "state.tar"
    _run("backup", archive, "--database", state)
    size_bytes = archive.stat().st_size
    with small_disk(tmp_path / "disk", 3 * size_bytes) as folder:
        target = folder / "state.db"
        _run("restore", archive, "--database", target)
        before = target.read_bytes()
        leave_free(folder, size_bytes // 2)
        shown = _run("restore", archive, "--database", target, "--replace", code=4).stderr
        assert "No space left on device" in shown and "Nothing changed." in shown
        assert target.read_bytes() == before
        # Beside the database, and not for it twice.
        leave_free(folder, size_bytes + size_bytes // 2)
        assert "put aside" in _run("restore", archive, "--database", target, "--replace").stdout
        assert target.read_bytes() == before


def test_a_damaged_or_newer_archive_touches_nothing(state: Path, tmp_path: Path) -> None:
    archive, target = tmp_path / "state.tar", tmp_path / "elsewhere" / "state.db"
    _run("backup", archive, "--database", state)
    whole = archive.read_bytes()
    at = whole.index(b"SQLite format 3") + 4096
    for content in (b"", whole[:3000], whole[:at] + b"damaged" + whole[at + 7 :]):
        archive.write_bytes(content)
        assert str(archive) in _run("restore", archive, "--database", target, code=2).stderr
    archive.write_bytes(_newer(whole))
    assert "newer" in _run("restore", archive, "--database", target, code=2).stderr
    absent = _run("restore", tmp_path / "absent.tar", "--database", target, code=2)
    assert "no archive" in absent.stderr
    assert not target.exists()


def _newer(archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        parts = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}  # type: ignore[union-attr]
    parts["manifest.json"] = json.dumps(
        {**json.loads(parts["manifest.json"]), "schema": "9999"}
    ).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def test_other_databases_are_told_what_backs_them_up(tmp_path: Path) -> None:
    archive = tmp_path / "state.tar"
    shown = _run("backup", archive, "--database", "postgresql://me@host/perfmodel", code=2)
    assert "pg_dump" in shown.stderr
    assert "no database" in _run("backup", archive, "--database", tmp_path / "none", code=2).stderr
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE one (a)")
    assert "none of a service" in _run("backup", archive, "--database", other, code=4).stderr
    assert not archive.exists()


@pytest.mark.parametrize(
    "command",
    [
        ["prices"],
        ["drift"],
        ["campaign", "status"],
        ["campaign", "results", "x"],
        ["retrain", "list"],
        ["backup", "state.tar"],
    ],
    ids=" ".join,
)
def test_what_only_looks_makes_no_database(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(cli, command)
    assert shown.exit_code == 2
    assert "There is no database 'perfmodel.db'." in shown.stderr
    assert not list(tmp_path.iterdir())


def test_an_archive_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    database = tmp_path / "perfmodel.db"
    with sqlite3.connect(database) as made:
        made.execute("CREATE TABLE alembic_version (version_num TEXT)")
    nowhere = tmp_path / "nowhere" / "state.tar"
    shown = _run("backup", nowhere, "--database", database, code=4)
    assert f"{nowhere} cannot be written: No such file or directory." in shown.stderr

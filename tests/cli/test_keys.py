"""``perfmodel keys``, and where ``perfmodel serve`` refuses to listen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perfmodel.cli import cli

pytest.importorskip("fastapi")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def _run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def test_a_key_is_made_listed_and_revoked(file: Path) -> None:
    made = _run("keys", "create", "ci", "--scope", "predict", "--scope", "observe", "--keys", file)
    assert made.exit_code == 0, made.stderr
    token = made.stdout.strip()
    key_id = token.split("_")[1]
    assert token.startswith("pmk_")
    assert token not in file.read_text()
    listed = _run("keys", "list", "--keys", file)
    assert token not in listed.output
    assert key_id in listed.stdout
    assert "observe, predict" in listed.stdout
    assert _run("keys", "revoke", key_id, "--keys", file).exit_code == 0
    (key,) = json.loads(_run("keys", "list", "--keys", file, "--json").stdout)["keys"]
    assert key["revoked_at"] is not None
    audit = [json.loads(line) for line in (file.parent / "audit.jsonl").read_text().splitlines()]
    assert [(line["action"], line["key"]) for line in audit] == [
        ("create key", key_id),
        ("revoke key", key_id),
    ]


def test_json_holds_the_key_and_its_rate(file: Path) -> None:
    made = _run("keys", "create", "a", "--scope", "admin", "--rate", 5, "--keys", file, "--json")
    shown = json.loads(made.stdout)
    assert (shown["scopes"], shown["rate_per_s"]) == (["admin"], 5.0)
    assert shown["key"].split("_")[1] == shown["id"]


def test_no_keys_are_said_to_be_none(file: Path) -> None:
    assert "no keys" in _run("keys", "list", "--keys", file).stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("create", "a", "--scope", "predct"), "Did you mean 'predict'?"),
        (("create", "", "--scope", "predict"), "name"),
        (("revoke", "0000"), "Unknown key '0000'"),
    ],
)
def test_nonsense_is_answered_with_what_to_do(file: Path, args: tuple[str, ...], says: str) -> None:
    run = _run("keys", *args, "--keys", file)
    assert run.exit_code == 2
    assert says in run.stderr


def test_serve_does_not_listen_for_everybody_without_a_key(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/state.db"
    run = _run("serve", "--host", "0.0.0.0", "--port", 0, "--database", database)
    assert run.exit_code == 2
    assert "--insecure" in run.stderr
    assert "perfmodel keys create" in run.stderr

"""Keys and audit of several hosts, in the database that they share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fastapi.testclient import TestClient
from guarded_service import CREATED
from postgresql import PostgresqlServer
from two_hosts import two_hosts
from waiting import until

from perfmodel.cli import cli
from perfmodel.errors import InvalidInputError
from perfmodel.store.sql.connections import Connections
from perfmodel.store.state.keys import AuditStore
from service.access.key_file import FRESH_S, KeyFile
from service.access.keys import new_key
from service.serve import serve


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.migrated_database()


@pytest.fixture
def hosts(url: str, tmp_path: Path) -> Iterator[list[TestClient]]:
    """Two services, each with a folder of its own."""
    with two_hosts(url, tmp_path / "a", tmp_path / "b") as clients:
        yield clients


def _run(url: str, *args: str) -> Result:
    # As on a machine of its own: the file of the keys would be the one of this folder.
    result = CliRunner(env={"PERFMODEL_KEYS": None}).invoke(cli, ["keys", *args, "--database", url])
    assert result.exit_code == 0, result.stderr
    return result


def _until(client: TestClient, token: str, status: int) -> None:
    """Wait until a token is answered with a status."""
    headers = {"Authorization": f"Bearer {token}"}
    until(lambda: client.get("/v1/jobs", headers=headers).status_code == status, every_s=0.1)


def test_a_key_opens_and_closes_all_hosts(hosts: list[TestClient], url: str) -> None:
    assert [host.get("/v1/jobs").status_code for host in hosts] == [200, 200]
    made = _run(url, "create", "ci", "--scope", "predict", "--rate", "1000")
    token = made.stdout.strip()
    assert token not in made.stderr and "database" in made.stderr
    for host in hosts:
        _until(host, token, 200)
        _until(host, "pmk_nobody", 401)
    (key,) = json.loads(_run(url, "list", "--json").stdout)["keys"]
    assert (key["name"], key["scopes"], key["rate_per_s"]) == ("ci", ["predict"], 1000.0)
    _run(url, "revoke", key["id"])
    for host in hosts:
        _until(host, token, 401)


def test_keys_of_the_file_count_beside(hosts: list[TestClient], url: str, tmp_path: Path) -> None:
    token, key = new_key("local", ["predict"], created_at=CREATED)
    KeyFile(tmp_path / "a" / "keys.json").add(key)
    _until(hosts[0], token, 200)
    # The other host has another file, and no key at all.
    assert hosts[1].get("/v1/jobs").status_code == 200
    shared = _run(url, "create", "all", "--scope", "predict").stdout.strip()
    for host in hosts:
        _until(host, shared, 200)
    _until(hosts[1], token, 401)
    _until(hosts[0], token, 200)


def test_keys_in_the_file_count_once_they_are_there(
    hosts: list[TestClient], tmp_path: Path
) -> None:
    for name in ("first", "second"):
        token, key = new_key(name, ["predict"], created_at=CREATED)
        KeyFile(tmp_path / "a" / "keys.json").add(key)
        _until(hosts[0], token, 200)
    assert FRESH_S <= 1.0  # so that two seconds are kept


def test_what_administrators_do_is_in_the_database(hosts: list[TestClient], url: str) -> None:
    token = _run(url, "create", "boss", "--scope", "admin").stdout.strip()
    headers = {"Authorization": f"Bearer {token}"}
    _until(hosts[1], "pmk_nobody", 401)
    priced = hosts[1].put("/v1/prices/T4", json={"per_hour": 1.0}, headers=headers)
    assert priced.status_code == 200
    connections = Connections(url)
    newest = [json.loads(line) for line in AuditStore(connections).newest(10)]
    connections.close()
    key_id = token.split("_")[1]
    assert [(line["action"], line["by"]) for line in newest] == [
        ("PUT /v1/prices/T4", key_id),
        ("create key", newest[1]["by"]),
    ]
    assert newest[0]["status"] == 200
    assert newest[1]["key"] == key_id


def test_without_the_database_known_keys_go_on_and_actions_are_noted_in_the_file(
    hosts: list[TestClient], url: str, tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    token = _run(url, "create", "boss", "--scope", "admin").stdout.strip()
    _until(hosts[0], "pmk_nobody", 401)
    headers = {"Authorization": f"Bearer {token}"}
    with postgresql.hanging():
        assert (
            hosts[0].put("/v1/prices/T4", json={"per_hour": 1}, headers=headers).status_code == 503
        )
        assert hosts[0].get("/v1/accelerators", headers=headers).status_code == 200
    (line,) = (tmp_path / "a" / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["action"] == "PUT /v1/prices/T4"


def test_a_key_in_the_database_is_a_lock_on_the_door(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("PERFMODEL_KEYS", "PERFMODEL_DATABASE", "PERFMODEL_MODELS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with pytest.raises(InvalidInputError, match="let anybody in"):
        serve(host="0.0.0.0", port=0, database=url)

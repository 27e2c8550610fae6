"""The database is locked, full or away: what cannot be kept is not acknowledged, answers go on."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from postgresql import PostgresqlServer
from sqlalchemy import Connection, event
from two_hosts import two_hosts
from waiting import until

from perfmodel.store.sql import connections

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
QUESTION = {"job": JOB, "placement": "A100-SXM4-80GB"}


class Caller:
    """Reports steps, and remembers which of them were acknowledged."""

    def __init__(self, client: TestClient) -> None:
        self._client = client
        self._sent = 0
        self._step_time_s = 2 * self.answer()["step_time_s"]
        self.acknowledged: list[str] = []

    def report(self) -> int:
        """Report a step of its own; returns the status."""
        self._sent += 1
        key = str(self._sent)
        one = {**QUESTION, "step_time_s": self._step_time_s, "key": key}
        response = self._client.post("/v1/observations", json=[one])
        if response.status_code == 200:
            assert response.json()["accepted"] == 1, response.text
            self.acknowledged.append(key)
        else:
            assert response.json()["type"].endswith(":store"), response.text
        return response.status_code

    def stored(self) -> list[str]:
        """Return the keys that are stored, in the order in which they came."""
        listed = self._client.get("/v1/observations").json()["observations"]
        return [one["key"] for one in reversed(listed)]

    def answer(self) -> dict[str, Any]:
        """Return the answer to a question."""
        response = self._client.post("/v1/predict", json=QUESTION)
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait shortly for a locked file."""
    monkeypatch.setattr(connections, "_LOCK_TIMEOUT_S", 0.2)


def _check_nothing_lost(caller: Caller) -> None:
    """Check that all that was acknowledged is stored, and counts with what comes now."""
    until(lambda: caller.report() == 200)
    assert set(caller.acknowledged) <= set(caller.stored())
    assert caller.answer()["basis"] == "measured"


def test_a_file_that_another_process_locks(app: FastAPI, client: TestClient) -> None:
    caller = Caller(client)
    assert caller.report() == 200
    before = caller.answer()
    path = app.state.dispatcher.state.database.url.removeprefix("sqlite:///")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert caller.report() == 503
    assert caller.answer() == before
    assert caller.stored() == caller.acknowledged
    other.execute("COMMIT")
    other.close()
    _check_nothing_lost(caller)


def test_a_disk_without_room(app: FastAPI, client: TestClient) -> None:
    caller, most = Caller(client), 0
    engine = app.state.dispatcher.state.database.connections._engine

    def bounded(connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count={most}")

    event.listen(engine, "begin", bounded)
    most = 2**30
    assert caller.report() == 200
    # As a full disk, no less than there is already.
    most = 1
    until(lambda: caller.report() == 503, every_s=0)
    assert caller.stored() == caller.acknowledged
    assert caller.answer()["basis"] == "measured"
    most = 2**30
    _check_nothing_lost(caller)


def test_a_server_that_crashes_and_comes_back(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    with two_hosts(postgresql.migrated_database(), tmp_path) as (here, there):
        caller = Caller(here)
        assert caller.report() == 200
        before = caller.answer()
        with postgresql.down():
            assert caller.report() == 503
            assert caller.report() == 503  # without trying again at once
            assert caller.answer() == before
            until(lambda: here.get("/v2/health/ready").json()["status"] == "degraded")
            (detail,) = here.get("/v2/health/ready").json()["detail"]
            assert detail.startswith("changes by others cannot be seen: The database")
        _check_nothing_lost(caller)
        until(lambda: Caller(there).answer() == caller.answer())
        until(lambda: here.get("/v2/health/ready").json()["status"] == "ready")

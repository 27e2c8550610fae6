"""Observations that are too old count no longer, without a restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import make_app

from perfmodel.errors import StoreError
from perfmodel.store.state.database import Database
from service.observations.expiry import Expiry
from service.settings import Settings
from service.state.state import State

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
ASKED = {"job": JOB, "placement": "T4"}
_PATIENCE_S = 60.0


def test_answers_are_as_before_once_an_observation_is_too_old(tmp_path: Path) -> None:
    with TestClient(make_app(tmp_path, observations_keep_s=3.0)) as client:
        before = client.post("/v1/predict", json=ASKED)
        sent = {**ASKED, "step_time_s": 2 * before.json()["step_time_s"]}
        began = time.monotonic()
        assert client.post("/v1/observations", json=[sent]).json()["accepted"] == 1
        assert client.post("/v1/predict", json=ASKED).content != before.content
        while client.post("/v1/predict", json=ASKED).content != before.content:
            assert time.monotonic() - began < _PATIENCE_S
            time.sleep(0.02)
        assert time.monotonic() - began > 3.0
        until = time.monotonic() + _PATIENCE_S
        while client.get("/v1/observations").json()["observations"]:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_an_observation_counts_as_long_as_it_said(tmp_path: Path) -> None:
    assert Settings().observations_keep_s == 0.0
    with TestClient(make_app(tmp_path)) as client:
        before = client.post("/v1/predict", json=ASKED)
        sent = {**ASKED, "step_time_s": 2 * before.json()["step_time_s"], "expires_in_s": 3}
        began = time.monotonic()
        assert client.post("/v1/observations", json=[sent]).json()["accepted"] == 1
        assert client.post("/v1/predict", json=ASKED).content != before.content
        (kept,) = client.get("/v1/observations").json()["observations"]
        assert kept["expires_at"] > kept["received_at"]
        while client.post("/v1/predict", json=ASKED).content != before.content:
            assert time.monotonic() - began < _PATIENCE_S
            time.sleep(0.02)
        assert time.monotonic() - began > 3.0
        assert client.get("/v1/observations").json()["observations"] == []


@pytest.mark.parametrize("stated", [0, -1, 4e9, "an hour", True, [60]])
def test_a_time_that_is_none_is_refused(tmp_path: Path, stated: Any) -> None:
    sent = {**ASKED, "step_time_s": 0.1, "expires_in_s": stated}
    with TestClient(make_app(tmp_path)) as client:
        answer = client.post("/v1/observations", json={"observations": [sent]})
        assert answer.status_code == 422
        (problem,) = answer.json()["errors"]
        assert problem["pointer"] == "/observations/0/expires_in_s"
        assert "expires_in_s" in problem["detail"]


def test_a_sweep_goes_on_after_the_database_was_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State(Database(f"sqlite:///{tmp_path}/state.db"), observations_keep_s=0.04)
    swept: list[int] = []

    def remove_expired() -> int:
        swept.append(1)
        if len(swept) == 1:
            raise StoreError("away")
        return 0

    monkeypatch.setattr(state.observations, "remove_expired", remove_expired)
    expiry = Expiry(state, 0.04)
    expiry.start()
    until = time.monotonic() + _PATIENCE_S
    while len(swept) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    expiry.stop()
    state.close()

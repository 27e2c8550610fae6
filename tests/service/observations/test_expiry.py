"""Observations that are too old count no longer, without a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import make_app
from jumping_clock import jump
from waiting import until

from perfmodel.errors import StoreError
from perfmodel.store.state.database import Database
from service.observations.retraction import _LONGEST_PAUSE_S, Expiry
from service.settings import Settings
from service.state.state import State

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
ASKED = {"job": JOB, "placement": "T4"}


def _none_is_too_old(client: TestClient) -> bool:
    return client.app.state.dispatcher.state.observations.remove_expired() == 0  # type: ignore[attr-defined]


def test_answers_are_as_before_once_an_observation_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TestClient(make_app(tmp_path, observations_keep_s=7_200.0)) as client:
        before = client.post("/v1/predict", json=ASKED)
        sent = {**ASKED, "step_time_s": 2 * before.json()["step_time_s"]}
        assert client.post("/v1/observations", json=[sent]).json()["accepted"] == 1
        jump(monkeypatch, 3_600.0)
        assert _none_is_too_old(client)
        assert client.post("/v1/predict", json=ASKED).content != before.content
        jump(monkeypatch, 3_601.0)
        until(lambda: client.post("/v1/predict", json=ASKED).content == before.content)
        until(lambda: not client.get("/v1/observations").json()["observations"])


def test_an_observation_counts_as_long_as_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Settings().observations_keep_s == 0.0
    with TestClient(make_app(tmp_path)) as client:
        before = client.post("/v1/predict", json=ASKED)
        sent = {**ASKED, "step_time_s": 2 * before.json()["step_time_s"], "expires_in_s": 7_200}
        assert client.post("/v1/observations", json=[sent]).json()["accepted"] == 1
        jump(monkeypatch, 3_600.0)
        assert _none_is_too_old(client)
        assert client.post("/v1/predict", json=ASKED).content != before.content
        (kept,) = client.get("/v1/observations").json()["observations"]
        assert kept["expires_at"] > kept["received_at"]
        jump(monkeypatch, 3_601.0)
        until(lambda: client.post("/v1/predict", json=ASKED).content == before.content)
        until(lambda: not client.get("/v1/observations").json()["observations"])


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
    assert _LONGEST_PAUSE_S <= 1.0  # so that what expired is gone within two seconds
    expiry.start()
    until(lambda: len(swept) >= 3)
    expiry.close()
    state.close()

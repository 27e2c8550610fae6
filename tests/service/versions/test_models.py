"""A damaged model never stops the service, and is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from perfmodel.estimator import Estimator
from perfmodel.store.artifacts import write_artifact
from service.app import create_app
from service.settings import Settings


def _client(models: Path) -> TestClient:
    settings = Settings(models=models, database="sqlite://")
    return TestClient(create_app(Estimator.from_folder(models), settings))


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    files = {"members/roofline.json": b"{}"}
    return write_artifact(tmp_path / "default" / "1", files, {"scores": {"mape": 0.1}})


def _detail(client: TestClient) -> list[str]:
    health = client.get("/v2/health/ready").json()
    assert health["status"] == "degraded"
    detail: list[str] = health["detail"]
    assert client.get("/v1/models").json()["problems"] == detail
    return detail


def test_without_models_the_roofline_answers(tmp_path: Path) -> None:
    client = _client(tmp_path / "nothing")
    assert client.get("/v2/health/ready").json() == {"status": "ready", "detail": []}
    listed = {"serving": "roofline", "loaded": ["roofline"], "models": [], "problems": []}
    assert client.get("/v1/models").json() == listed


@pytest.mark.parametrize("damage", ["manifest", "file", "missing"])
def test_a_damaged_model_is_named_and_the_service_stays_up(artifact: Path, damage: str) -> None:
    if damage == "manifest":
        manifest = artifact / "manifest.json"
        manifest.write_bytes(manifest.read_bytes().replace(b"0.1", b"0.2"))
    elif damage == "file":
        (artifact / "members" / "roofline.json").write_bytes(b"[]")
    else:
        (artifact / "members" / "roofline.json").unlink()
    client = _client(artifact.parents[1])
    assert any("default/1" in text for text in _detail(client))
    question: dict[str, Any] = {
        "job": {"model": "zoo/mlp", "mode": "inference", "batch_size": 2},
        "placement": "A10",
    }
    pytest.importorskip("torch")
    answer = client.post("/v1/predict", json=question)
    assert answer.status_code == 200, answer.text
    assert answer.json()["model_version"] == "roofline"
    assert answer.json()["basis"] == "analytical"


def test_a_sound_artifact_that_is_no_model_is_named_too(artifact: Path) -> None:
    client = _client(artifact.parents[1])
    assert any("cannot be loaded" in text for text in _detail(client))
    listed = client.get("/v1/models").json()["models"]
    assert [(m["model"], m["serving"], m["damaged"]) for m in listed] == [("default/1", False, {})]

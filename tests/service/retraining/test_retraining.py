"""Retrainings over HTTP: entered, watched, cancelled; done by a process beside the service."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from fastapi.testclient import TestClient
from guarded_service import Guarded, guarded_service
from migrated import migrated_sqlite
from retraining_world import FEW, RetrainingWorld, write_profiles
from service_process import service_process

from perfmodel.store.retraining import RetrainingLogStore
from perfmodel.store.retraining.retraining_records import RetrainingState
from service.schemas.state_bodies import (
    RetrainingEntered,
    RetrainingEntry,
    RetrainingLogAnswer,
    RetrainingsAnswer,
)
from service.settings import Settings

BODY: dict[str, Any] = {"why": "weekly", "settings": {"seed": 3, "without": ["timm"]}}
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    yield from guarded_service(tmp_path_factory)


@pytest.fixture
def world(client: TestClient, tmp_path: Path) -> Iterator[RetrainingWorld]:
    """Return workers of the database that the service has."""
    made = RetrainingWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    yield made
    made.close()


def test_a_retraining_is_entered_once_watched_and_cancelled(
    client: TestClient, world: RetrainingWorld
) -> None:
    made = client.post("/v1/retrain", json=BODY)
    assert made.status_code == 202
    RetrainingEntered.model_validate_json(made.content, strict=True)
    name, place = made.json()["id"], made.headers["Location"]
    assert (made.json()["state"], made.json()["created"], made.json()["model"]) == (
        "waiting", True, "default",
    )  # fmt: skip
    again = client.post("/v1/retrain", json={})
    assert (again.json()["id"], again.json()["created"]) == (name, False)

    claim = world.store.claim("somewhere", lease_s=60.0)
    assert claim is not None and claim.settings["seed"] == 3
    world.store.tell(claim, phase="fit", progress="fitted gbdt", fraction=0.15)
    RetrainingLogStore(world.database.connections).add(name, 1, ["fit: begins", "fit: fitted"])
    shown = client.get(place)
    RetrainingEntry.model_validate_json(shown.content, strict=True)
    assert shown.json()["phases"] == {
        "snapshot": "done", "capture": "done", "fit": "running", "calibrate": "waiting",
        "judge": "waiting", "decide": "waiting", "publish": "waiting",
    }  # fmt: skip
    log = client.get(f"{place}/log")
    RetrainingLogAnswer.model_validate_json(log.content, strict=True)
    first, second = log.json()["lines"]
    assert (first["text"], second["text"]) == ("fit: begins", "fit: fitted")
    rest = client.get(f"{place}/log?after={first['number']}").json()["lines"]
    assert [line["text"] for line in rest] == ["fit: fitted"]
    listed = client.get("/v1/retrain?model=default")
    RetrainingsAnswer.model_validate_json(listed.content, strict=True)
    assert [one["id"] for one in listed.json()["retrainings"]] == [name]
    assert client.get("/v1/retrain?model=other").json()["retrainings"] == []

    gone = client.delete(place)
    assert (gone.status_code, gone.json()["state"]) == (200, "cancelled")
    assert not world.store.renew("somewhere", [claim.name], lease_s=1.0)
    late = client.delete(place)
    assert late.status_code == 409 and "is cancelled; it cannot" in late.json()["detail"]


def test_models_that_are_there_and_the_one_of_the_settings_are_learned_anew(
    client: TestClient, settings: Settings, world: RetrainingWorld
) -> None:
    assert isinstance(settings.models, Path)
    for name in ("kernels", "other"):
        (settings.models / name).mkdir(parents=True)
    assert client.post("/v1/retrain", json={"model": "other"}).status_code == 202
    assert client.post("/v1/retrain", json={}).json()["model"] == "default"
    refused = client.post("/v1/retrain", json={"model": "defualt"})
    assert refused.status_code == 422
    assert refused.json()["did_you_mean"] == ["default"]
    (error,) = refused.json()["errors"]
    assert (error["pointer"], error["allowed"]) == ("/model", ["default", "other"])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"name": "default"}, "/name"),
        ({"model": "../up"}, "/model"),
        ({"model": "defualt"}, "/model"),
        ({"model": "kernels"}, "/model"),
        ({"why": 3}, "/why"),
        ({"settings": {"profiles": "/etc"}}, "/settings/profiles"),
        ({"settings": {"members": ["gdbt"]}}, "/settings/members"),
        ({"settings": {"folds": 1}}, "/settings/folds"),
        ({"settings": {"margins": {"error": -1}}}, "/settings/margins/error"),
        ({"settings": {"promote": "yes"}}, "/settings/promote"),
        ({"settings": {"joint": {"workers": 9}}}, "/settings/joint/workers"),
        ({"settings": {"without": "timm"}}, "/settings/without"),
    ],
)
def test_what_is_wrong_with_a_body_is_pointed_at(
    client: TestClient, body: dict[str, Any], pointer: str
) -> None:
    refused = client.post("/v1/retrain", json=body)
    assert refused.status_code == 422
    assert [one["pointer"] for one in refused.json()["errors"]] == [pointer]
    assert client.get("/v1/retrain").json()["retrainings"] == []


def test_unknown_ones_are_not_there(client: TestClient) -> None:
    for path in ("/v1/retrain/unknown", "/v1/retrain/unknown/log", "/v1/retrain/%00"):
        assert client.get(path).status_code == 404
    assert client.delete("/v1/retrain/unknown").status_code == 404


def test_administrators_alone_retrain_and_it_is_audited(guarded: Guarded) -> None:
    for scope in ("predict", "observe"):
        shown = guarded.bearer(scope)
        assert guarded.client.post("/v1/retrain", json={}, headers=shown).status_code == 403
        assert guarded.client.get("/v1/retrain", headers=shown).status_code == 403
    assert guarded.client.get("/v1/retrain").status_code == 401
    admin = guarded.bearer("admin")
    made = guarded.client.post("/v1/retrain", json={}, headers=admin)
    assert made.status_code == 202
    assert made.json()["by"] not in ("", "guest")
    guarded.client.delete(made.headers["Location"], headers=admin)
    audit = (guarded.folder / "audit.jsonl").read_text()
    assert "POST /v1/retrain" in audit and f"DELETE {made.headers['Location']}" in audit


def _read(url: str) -> bytes:
    with urlopen(url) as answer:
        found: bytes = answer.read()
    return found


def test_a_service_has_it_done_beside_it_and_serves_what_comes_of_it(tmp_path: Path) -> None:
    write_profiles(tmp_path / "profiles", FEW)
    world = RetrainingWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    with service_process(
        world.url, tmp_path, models=str(world.models), PERFMODEL_RETRAIN_HERE="true",
        PERFMODEL_RETRAINING_PROCESSES="1", PERFMODEL_DATA="",
    ) as (process, service):  # fmt: skip
        body = {"settings": world.quick(members=["efficiency"])}
        name = service.ask("/v1/retrain", body)["id"]
        until = time.monotonic() + PATIENCE_S
        while (found := world.store.find(name)) is not None and found.state.is_open:
            assert time.monotonic() < until, found
            time.sleep(0.1)
        assert found is not None and found.state is RetrainingState.DONE, found
        serving = f"default/{found.version}"
        while service.ask("/v1/models")["serving"] != serving:
            assert time.monotonic() < until, "it is not served"
            time.sleep(0.1)
        while b'perfmodel_retrainings{state="done"} 1.0' not in _read(f"{service.url}/metrics"):
            assert time.monotonic() < until, "it is not counted"
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(PATIENCE_S)
    world.close()
    shutil.rmtree(tmp_path)

"""Versions over HTTP, on several hosts, over a folder and over a store elsewhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from guarded_service import guarded_service
from held_service import HeldService, NonsenseModel, held_service
from trained_version import trained_version
from waiting import until
from webdav_server import webdav_store

from perfmodel.estimator.single.loading import LoadedModel
from perfmodel.registry.file_store import open_store
from perfmodel.registry.model_registry import ModelRegistry
from service.versions import loaded_versions

PREDICT: dict[str, Any] = {
    "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    "placement": "A10",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_version(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def service(tmp_path: Path, trained: Path) -> Iterator[HeldService]:
    """A service over three versions, of which no change speaks."""
    for number in "123":
        shutil.copytree(trained, tmp_path / "models" / "default" / number)
    with held_service(tmp_path, models_poll_s=0) as found:
        yield found


def _post(service: HeldService, path: str, status: int = 200) -> dict[str, Any]:
    response = service.client.post(f"/v1/models/{path}")
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer


def _get(service: HeldService, path: str = "", status: int = 200) -> dict[str, Any]:
    response = service.client.get(f"/v1/models{path}")
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer


def _serving(service: HeldService) -> str:
    return str(service.ask("predict", **PREDICT)["model_version"])


def test_a_version_is_promoted_and_rolled_back(service: HeldService) -> None:
    _post(service, "reload")
    done = _post(service, "default/1/promote?why=better%20on%20T4")
    assert (done["model"], done["serving"], done["problems"]) == ("default/1", "default/1", [])
    assert (done["change"]["previous"], done["change"]["by"]) == ("3", "guest")
    assert _serving(service) == "default/1"
    listed = _get(service)["models"]
    assert [(one["model"], one["state"], one["serving"]) for one in listed] == [
        ("default/3", "retired", False),
        ("default/2", "candidate", False),
        ("default/1", "serving", True),
    ]
    # What served goes on answering whoever pins it.
    pinned = service.ask("predict", **PREDICT, pin_model="default/3")
    assert pinned["model_version"] == "default/3"
    assert _post(service, "default/rollback")["serving"] == _serving(service) == "default/3"
    shown = _get(service, "/default/1")
    assert (shown["state"], shown["changes"][0]["why"]) == ("retired", "better on T4")
    assert shown["manifest"]["snapshot"]["workloads"]["samples"] > 0
    same = _get(service, "/default/1/diff")
    assert (same["before"], same["after"], same["facts"]) == ("default/3", "default/1", [])
    for against in ("default/2", "2"):
        assert _get(service, f"/default/1/diff?against={against}")["before"] == "default/2"


def test_a_version_is_compared_with_the_one_of_its_name_that_serves(
    service: HeldService, tmp_path: Path, trained: Path
) -> None:
    shutil.copytree(trained, tmp_path / "models" / "other" / "1")
    ModelRegistry(open_store(tmp_path / "models")).publish(trained, "third")
    _post(service, "reload")
    assert _get(service, "/other/1/diff")["before"] == "other/1"
    (waiting,) = (tmp_path / "models" / "third").glob("2*")
    assert (
        "No version of 'third' serves"
        in _get(service, f"/third/{waiting.name}/diff", 422)["detail"]
    )


def test_what_cannot_be_promoted_says_why_and_nothing_changes(
    service: HeldService, tmp_path: Path
) -> None:
    _post(service, "reload")
    (tmp_path / "models" / "default" / "2" / "serving.json").write_bytes(b"{}")
    assert "serving.json" in _post(service, "default/2/promote", 409)["detail"]
    for path in ("default/9/promote", "other/1/promote", "other/rollback", "other/collect"):
        _post(service, path, 404)
    for path in ("/default/9", "/other/1", "/default/1/diff?against=default/9"):
        _get(service, path, 404)
    _post(service, "default/collect?keep=-1", 422)
    first = _post(service, "default/1/promote")
    again = _post(service, "default/1/promote")
    assert (first["changed"], again["changed"]) == (True, False)
    assert again["change"]["change_id"] == first["change"]["change_id"]
    assert len(_get(service, "/default/1")["changes"]) == 1
    assert _serving(service) == "default/1"


def test_a_version_that_answers_nonsense_is_not_promoted(
    service: HeldService, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = service.ask("predict", **PREDICT)
    nonsense = LoadedModel(model=NonsenseModel(version="default/1"))
    monkeypatch.setattr(loaded_versions, "load_version", lambda *_: nonsense)
    refused = _post(service, "default/1/promote", 409)
    assert "fails on jobs" in refused["detail"]
    assert service.ask("predict", **PREDICT) == before
    assert _get(service, "/default/1")["changes"] == []


def test_versions_are_collected_but_not_those_that_are_pinned(service: HeldService) -> None:
    for number in "123":
        _post(service, f"default/{number}/promote")
    service.ask("predict", **PREDICT, pin_model="default/1")
    registry = service.dispatcher.source.registry
    until(lambda: registry.pins.since("default", 7) == {"1"})
    assert _post(service, "default/collect?keep=0")["removed"] == []
    # As if that had been long ago.
    shutil.rmtree(service.dispatcher.source.folder / "default" / "_pins")
    assert _post(service, "default/collect?keep=0&why=space")["removed"] == ["1"]
    # It is in memory, and goes on answering here.
    assert service.ask("predict", **PREDICT, pin_model="default/1")["model_version"] == "default/1"
    _get(service, "/default/1", 404)


def test_the_loss_of_a_promoted_version_is_told_and_it_goes_on(
    service: HeldService, tmp_path: Path
) -> None:
    _post(service, "default/2/promote")
    shutil.rmtree(tmp_path / "models" / "default" / "2")
    swap = _post(service, "reload")
    assert swap["serving"] == "default/2" and "are gone" in swap["problems"][0]
    shutil.rmtree(tmp_path / "models")
    swap = _post(service, "reload")
    health = service.client.get("/v2/health/ready").json()
    assert health["status"] == "degraded" and "is gone" in health["detail"][-1]
    assert service.metrics()["perfmodel_model_store_up"] == 0
    assert _serving(service) == "default/2"


def test_two_hosts_follow_a_store_elsewhere_and_outlive_it(tmp_path: Path, trained: Path) -> None:
    with webdav_store(tmp_path / "webdav") as store, ExitStack() as stack:
        registry = ModelRegistry(store.open(), by="retraining")
        for _ in range(3):
            registry.publish(trained, "default")
        first, second, third = reversed(registry.versions.versions("default"))
        registry.promote("default", first)
        hosts = []
        for name in "ab":
            (tmp_path / name).mkdir()
            settings = {
                "models": store.url, "models_options": store.options,
                "models_cache": tmp_path / name / "cache", "models_poll_s": 0.1,
            }  # fmt: skip
            hosts.append(stack.enter_context(held_service(tmp_path / name, **settings)))
        for host in hosts:
            until(lambda host=host: _serving(host) == f"default/{first}")
        # Told to one host, the other follows.
        done = _post(hosts[0], f"default/{second}/promote")
        assert done["serving"] == f"default/{second}"
        until(lambda: _serving(hosts[1]) == f"default/{second}")
        # By the command line, both do; what is not copied is fetched for whoever pins it.
        registry.rollback("default")
        for host in hosts:
            until(lambda host=host: _serving(host) == f"default/{first}")
        listed = [one["model"] for one in _get(hosts[0])["models"]]
        assert f"default/{third}" in listed
        pinned = hosts[0].ask("predict", **PREDICT, pin_model=f"default/{third}")
        assert pinned["model_version"] == f"default/{third}"
        store.stop()
        for host in hosts:
            until(lambda host=host: host.metrics()["perfmodel_model_store_up"] == 0)
            assert _serving(host) == f"default/{first}"
            health = host.client.get("/v2/health/ready").json()
            assert "What serves goes on" in health["detail"][0]
        assert "store of models" in _post(hosts[0], "default/rollback", 503)["detail"]
    # A host that starts now has its copy.
    with held_service(
        tmp_path / "a", **{**settings, "models_cache": tmp_path / "a" / "cache"}
    ) as again:
        _post(again, "reload")
        assert _serving(again) == f"default/{first}"


def test_only_administrators_decide_and_it_is_noted(
    tmp_path_factory: pytest.TempPathFactory, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("decided")
    shutil.copytree(trained, folder / "models" / "default" / "1")
    monkeypatch.setenv("PERFMODEL_MODELS", str(folder / "models"))
    for guarded in guarded_service(tmp_path_factory):
        path = "/v1/models/default/1/promote?why=tried"
        for scope, status in (("predict", 403), ("observe", 403), ("admin", 200)):
            answer = guarded.client.post(path, headers=guarded.bearer(scope))
            assert answer.status_code == status, answer.text
        by = answer.json()["change"]["by"]
        lines = (guarded.folder / "audit.jsonl").read_text().splitlines()
        noted = [json.loads(line) for line in lines]
        (line,) = [one for one in noted if one["status"] == 200]
        assert (line["by"], line["query"]) == (by, "why=tried")
        assert line["action"] == "POST /v1/models/default/1/promote"
    registry = ModelRegistry(open_store(folder / "models"))
    assert registry.history("default").changes[0].by == by

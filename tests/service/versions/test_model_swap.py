"""A retrained model takes over while questions are answered, and a bad one does not."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import guarded_service
from held_service import HeldService, NonsenseModel, held_service
from often import often
from trained_version import trained_version
from waiting import until

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.sisters import sisters_of
from perfmodel.estimator.single.loading import LoadedModel
from service.versions import loaded_versions
from service.versions.folder_watch import ModelFolder

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
PREDICT: dict[str, Any] = {"job": JOB, "placement": "A10"}
MATRIX: dict[str, Any] = {
    "jobs": [JOB, {**JOB, "model": "timm/resnet18"}],
    "placements": ["A10", "T4", "2xT4"],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_version(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models" / "default"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[HeldService]:
    with held_service(tmp_path, models_poll_s=0) as service:
        yield service


def _appear(trained: Path, models: Path, version: str) -> None:
    """Let a version appear in one go, as training writes it."""
    shutil.copytree(trained, models / f".{version}")
    (models / f".{version}").rename(models / version)


def _reload(client: TestClient) -> dict[str, Any]:
    response = client.post("/v1/models/reload")
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_a_new_version_takes_over(service: HeldService, trained: Path, models: Path) -> None:
    before = service.ask("predict", **PREDICT)
    _appear(trained, models, "1")
    swap = _reload(service.client)
    assert swap == {
        "serving": "default/1", "previous": "held/1", "swapped": True, "problems": [],
    }  # fmt: skip
    after = service.ask("predict", **PREDICT)
    assert (before["model_version"], after["model_version"]) == ("held/1", "default/1")
    assert after["step_time_s"] != before["step_time_s"]
    listed = service.client.get("/v1/models").json()
    assert listed["serving"] == "default/1" and listed["loaded"] == ["default/1", "held/1"]
    assert [(m["model"], m["serving"]) for m in listed["models"]] == [("default/1", True)]
    created = [n for n in service.metrics() if n.startswith("perfmodel_model_created")]
    assert created == ['perfmodel_model_created_timestamp_seconds{model="default/1"}']
    # The one before can be pinned and answers as it did.
    assert service.ask("predict", **PREDICT, pin_model="held/1") == before
    assert _reload(service.client)["swapped"] is False


def test_what_was_asked_is_predicted_before_a_version_serves(
    service: HeldService, trained: Path, models: Path
) -> None:
    service.ask("matrix", **MATRIX)
    _appear(trained, models, "1")
    _reload(service.client)
    pairs = service.dispatcher.estimator.core.recently_predicted(100)
    # 2 jobs on 2 kinds of accelerators, each with all of its chip.
    catalog = Catalog.default()
    kinds = {catalog.get(name) for name in ("A10", "T4")}
    alike = {one.name for kind in kinds for one in sisters_of(kind, catalog)}
    assert len({prepared.key for prepared, _ in pairs}) == 2
    assert {spec.name for _, spec in pairs} == alike
    assert len(pairs) == 2 * len(alike)


def test_the_newest_serves_and_going_back_is_removing_it(
    service: HeldService, trained: Path, models: Path
) -> None:
    for version in ("1", "2"):
        _appear(trained, models, version)
    assert _reload(service.client)["serving"] == "default/2"
    shutil.rmtree(models / "2")
    assert _reload(service.client)["serving"] == "default/1"
    shutil.rmtree(models)
    swap = _reload(service.client)
    assert swap["serving"] == "default/1"
    assert service.ask("predict", **PREDICT)["model_version"] == "default/1"


@pytest.mark.parametrize("damage", ["manifest.json", "measured.json", "serving.json"])
def test_a_damaged_version_is_passed_over_and_named(
    service: HeldService, trained: Path, models: Path, damage: str
) -> None:
    _appear(trained, models, "1")
    _reload(service.client)
    _appear(trained, models, "2")
    (models / "2" / damage).write_bytes(b"{}")
    swap = _reload(service.client)
    assert (swap["serving"], swap["swapped"]) == ("default/1", False)
    assert any("2" in text for text in swap["problems"])
    health = service.client.get("/v2/health/ready").json()
    assert health == {"status": "degraded", "detail": swap["problems"]}
    assert service.client.get("/v1/models").json()["problems"] == swap["problems"]
    assert service.ask("predict", **PREDICT)["model_version"] == "default/1"
    shutil.rmtree(models / "2")
    assert _reload(service.client)["problems"] == []
    assert service.client.get("/v2/health/ready").json()["status"] == "ready"


def test_a_version_that_serves_survives_the_loss_of_its_files(
    service: HeldService, trained: Path, models: Path
) -> None:
    for version in ("1", "2"):
        _appear(trained, models, version)
    _reload(service.client)
    (models / "2" / "measured.json").write_bytes(b"{}")
    swap = _reload(service.client)
    assert swap["serving"] == "default/2" and "measured.json" in swap["problems"][0]
    assert service.ask("predict", **PREDICT)["model_version"] == "default/2"


def test_a_version_that_answers_nonsense_is_passed_over(
    service: HeldService, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = service.ask("predict", **PREDICT)
    facts = ({"model": "default/9", "serving": True},)
    loaded = LoadedModel(model=NonsenseModel(version="default/9"), models=facts)
    monkeypatch.setattr(loaded_versions, "load_model", lambda *_: loaded)
    swap = _reload(service.client)
    assert swap["serving"] == "held/1"
    assert "default/9 fails on jobs" in swap["problems"][0]
    assert service.ask("predict", **PREDICT) == before


def test_no_answer_fails_or_is_mixed_while_versions_change(
    service: HeldService,
    trained: Path,
    models: Path,
    record_property: Callable[[str, object], None],
) -> None:
    expected: dict[tuple[str, str], Any] = {}
    wrong: list[str] = []
    answers: list[str] = []
    done = threading.Event()
    _appear(trained, models, "0")

    def ask(route: str, question: dict[str, Any]) -> None:
        asked = 0
        while not done.is_set() or asked < 5:
            asked += 1
            answer = service.client.post(f"/v1/{route}", json=question)
            content = answer.json()
            answers.append(route)
            if answer.status_code != 200:
                wrong.append(answer.text)
            elif content != expected[route, content["model_version"]]:
                wrong.append(f"{route} of {content['model_version']} was not its own")

    questions: dict[str, dict[str, Any]] = {
        "predict": PREDICT,
        "matrix": MATRIX,
        "curve": {"job": JOB, "accelerator": "T4"},
    }
    for version in ("held/1", "default/0"):
        for route, question in questions.items():
            expected[route, version] = service.ask(route, **question, pin_model=version)
    threads = [threading.Thread(target=ask, args=item) for item in questions.items()]
    for thread in threads:
        thread.start()
    served = set()
    for _ in range(often(10)):
        served.add(_reload(service.client)["serving"])
        # Back to the other one, as a reload would after the folder changed.
        kept = service.dispatcher.models.in_memory("held/1")
        assert kept is not None
        service.dispatcher.models.serving = kept
    done.set()
    for thread in threads:
        thread.join()
    record_property("swaps", often(10))
    record_property("answers meanwhile", len(answers))
    assert served == {"default/0"} and not wrong, wrong[:3]


def test_every_process_follows_the_folder_by_itself(tmp_path: Path, trained: Path) -> None:
    shared = tmp_path / "models"
    (shared / "default").mkdir(parents=True)
    for worker in ("a", "b"):
        (tmp_path / worker).mkdir()
        (tmp_path / worker / "models").symlink_to(shared)
    with (
        held_service(tmp_path / "a", models_poll_s=0.02) as first,
        held_service(tmp_path / "b", models_poll_s=0.02) as second,
    ):
        _appear(trained, shared / "default", "1")
        for service in (first, second):
            until(lambda s=service: s.ask("predict", **PREDICT)["model_version"] == "default/1")
        _appear(trained, shared / "default", "2")
        # Told to one, the other sees it too.
        assert _reload(first.client)["serving"] == "default/2"
        until(lambda: second.ask("predict", **PREDICT)["model_version"] == "default/2")


def test_any_change_of_the_folder_is_noticed_once(tmp_path: Path) -> None:
    folder = ModelFolder(tmp_path / "models")
    assert not folder.has_changed()
    version = tmp_path / "models" / "default" / "1"
    version.mkdir(parents=True)
    (version / "manifest.json").write_text("{}")
    assert folder.has_changed() and not folder.has_changed()
    (version / "manifest.json").write_text("[1]")
    assert folder.has_changed() and not folder.has_changed()
    # What is being written under another name is none of it yet.
    hidden = tmp_path / "models" / "default" / ".2"
    hidden.mkdir()
    (hidden / "manifest.json").write_text("{}")
    assert not folder.has_changed()
    shutil.rmtree(version)
    assert folder.has_changed()


def test_only_administrators_swap_and_it_is_noted(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for guarded in guarded_service(tmp_path_factory):
        for scope, status in (("predict", 403), ("observe", 403), ("admin", 200)):
            answer = guarded.client.post("/v1/models/reload", headers=guarded.bearer(scope))
            assert answer.status_code == status, answer.text
        lines = (guarded.folder / "audit.jsonl").read_text().splitlines()
        noted = [json.loads(line) for line in lines]
        assert any("/v1/models/reload" in line["action"] for line in noted)

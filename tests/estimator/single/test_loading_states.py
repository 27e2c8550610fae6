"""Which version of a folder is loaded, by what was said of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from trained_version import trained_version

from perfmodel.estimator.single.loading import load_model, version_names
from perfmodel.registry.file_store import LocalFiles
from perfmodel.registry.mirror import ModelMirror
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import State


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_version(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def models(tmp_path: Path, trained: Path) -> Path:
    for number in "123":
        shutil.copytree(trained, tmp_path / "default" / number)
    return tmp_path


@pytest.fixture
def registry(models: Path) -> ModelRegistry:
    return ModelRegistry(LocalFiles(models), by="me")


def _damage(models: Path, number: str, file: str = "serving.json") -> None:
    (models / "default" / number / file).write_bytes(b"{}")


def test_what_was_promoted_is_loaded_and_not_the_newest(
    models: Path, registry: ModelRegistry
) -> None:
    assert load_model(models).model.version == "default/3"
    registry.promote("default", "1")
    found = load_model(models)
    assert found.model.version == "default/1" and found.problems == ()
    assert [(one["model"], one["state"]) for one in found.models] == [
        ("default/3", "retired"), ("default/2", "candidate"), ("default/1", "serving"),
    ]  # fmt: skip


@pytest.mark.parametrize("file", ["serving.json", "manifest.json"])
def test_the_one_before_answers_for_a_damaged_one(
    models: Path, registry: ModelRegistry, file: str
) -> None:
    registry.promote("default", "1")
    registry.promote("default", "2")
    _damage(models, "2", file)
    found = load_model(models)
    # Not 3, which is newer and sound: it served before 1 did.
    assert found.model.version == "default/1" and any("2" in text for text in found.problems)
    _damage(models, "1")
    assert load_model(models).model.version == "default/3"


def test_a_candidate_never_answers_for_a_damaged_one(
    models: Path, registry: ModelRegistry, trained: Path
) -> None:
    registry.promote("default", "3")
    shutil.copytree(trained, models / "default" / "4")
    _damage(models, "3")
    found = load_model(models)
    # No version served before as far as was said: the analytical model does.
    assert not [one for one in found.models if one["serving"]]


def test_a_version_that_was_judged_is_passed_over(models: Path, registry: ModelRegistry) -> None:
    registry.judge("default", "2", State.REFUSED, why="worse")
    shutil.rmtree(models / "default" / "3")
    assert load_model(models).model.version == "default/1"


def test_a_damaged_change_is_told_and_an_unreadable_log_stops_the_name(
    models: Path, registry: ModelRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.promote("default", "1")
    change = next((models / "default" / "_states").iterdir())
    change.write_bytes(b"{")
    found = load_model(models)
    assert change.name in found.problems[0] and found.model.version == "default/3"

    def unreadable(self: LocalFiles, path: str) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(LocalFiles, "files", _through_store_error(unreadable))
    found = load_model(models)
    # One that was refused must not serve: none does while nobody knows.
    assert not [one for one in found.models if one["serving"]]
    assert "cannot be used" in found.problems[0]


def _through_store_error(
    action: Callable[[LocalFiles, str], list[str]],
) -> Callable[[LocalFiles, str], list[str]]:
    def files(self: LocalFiles, path: str) -> list[str]:
        with self._translated():
            return action(self, path)

    return files


def test_versions_elsewhere_are_listed_and_not_loaded(
    models: Path, registry: ModelRegistry, tmp_path: Path
) -> None:
    registry.promote("default", "2")
    copy = tmp_path / "copy"
    ModelMirror(registry.files, copy).sync()
    assert sorted(p.name for p in (copy / "default").iterdir() if p.name[0] != "_") == ["2", "3"]
    found = load_model(copy)
    assert [one["model"] for one in found.models] == ["default/3", "default/2", "default/1"]
    assert found.model.version == "default/2"
    assert version_names(copy) == ["default/3", "default/2", "default/1"]

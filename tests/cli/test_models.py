"""``perfmodel models``: versions listed, shown, compared, promoted, rolled back, collected."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from trained_version import trained_version
from webdav_server import webdav_store

from perfmodel.cli import cli
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.store.artifacts import manifest_bytes


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_version(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def models(tmp_path: Path, trained: Path) -> Path:
    for number in "123":
        shutil.copytree(trained, tmp_path / "models" / "default" / number)
    return tmp_path / "models"


def _run(models: Path | str, *args: str, code: int = 0) -> Result:
    found = CliRunner().invoke(cli, ["models", *args, "--models", str(models)])
    assert found.exit_code == code, found.output
    return found


def _json(models: Path | str, *args: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_run(models, *args, "--json", code=code).stdout)
    return found


def _states(models: Path | str) -> list[tuple[str, str, bool]]:
    listed = _json(models, "list")["models"]
    return [(one["model"][-1], one["state"], one["serving"]) for one in listed]


def test_a_version_is_promoted_and_rolled_back(models: Path) -> None:
    assert _states(models) == [
        ("3", "serving", True), ("2", "retired", False), ("1", "retired", False),
    ]  # fmt: skip
    said = _run(models, "promote", "default/1", "--why", "better on T4").stdout
    assert said == "default/1 serves in the place of default/3.\n"
    assert _states(models)[::2] == [("3", "retired", False), ("1", "serving", True)]
    change = _json(models, "rollback")
    assert (change["version"], change["previous"], change["action"]) == ("3", "1", "rollback")
    assert "user" in change["by"]
    shown = _json(models, "show", "1")
    assert (shown["model"], shown["state"]) == ("default/1", "retired")
    assert [one["why"] for one in shown["changes"]] == ["better on T4"]
    assert shown["manifest"]["seed"] == 0
    assert "better on T4" in _run(models, "show", "default/1").stdout
    assert "list" not in _run(models).stdout and "serving" in _run(models).stdout


def test_the_difference_of_two_versions(models: Path, trained: Path) -> None:
    same = _json(models, "diff", "1", "2")
    assert (same["scores"], same["facts"], same["files"]) == ([], [], [])
    manifest = json.loads((trained / "manifest.json").read_text())
    manifest["seed"] = 7
    manifest["scores"]["predictors"]["ensemble"]["mape"] = 0.25
    manifest["files"]["serving.json"]["sha256"] = "0" * 64
    (models / "default" / "2" / "manifest.json").write_bytes(manifest_bytes(manifest))
    found = _json(models, "diff", "default/2")
    assert (found["before"], found["after"]) == ("default/3", "default/2")
    assert found["facts"] == [{"fact": "seed", "before": 0, "after": 7}]
    (score,) = found["scores"]
    assert (score["fact"], score["after"]) == ("scores.predictors.ensemble.mape", 0.25)
    assert found["files"] == ["serving.json"]
    assert "scores.predictors.ensemble.mape" in _run(models, "diff", "2").stdout


def test_what_cannot_be_done_says_why(models: Path) -> None:
    (models / "default" / "2" / "serving.json").write_bytes(b"{}")
    assert "serving.json" in _run(models, "promote", "2", code=4).stderr
    assert "Unknown model version" in _run(models, "promote", "9", code=2).stderr
    # It served by being the newest; now somebody says so.
    assert _run(models, "promote", "3").stdout == "default/3 serves.\n"
    assert "serves already; nothing is changed" in _run(models, "promote", "3").stdout
    assert "Unknown predictor" in _run(models, "rollback", "--name", "other", code=2).stderr
    assert _states(models.parent / "nothing") == []


def test_retired_versions_are_collected(models: Path) -> None:
    said = _run(models, "collect", "--keep", "0", "--why", "space").stdout
    # 2 is what a rollback goes back to.
    assert said == "Deleted: 1.\n"
    assert [one[0] for one in _states(models)] == ["3", "2"]
    assert _json(models, "collect", "--keep", "0")["removed"] == []


def test_a_store_elsewhere(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with webdav_store(tmp_path / "webdav") as store:
        registry = ModelRegistry(store.open())
        registry.publish(trained, "default")
        monkeypatch.setenv("PERFMODEL_MODELS_OPTIONS", json.dumps(store.options))
        monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))
        found = _json(store.url, "promote", trained.name)
        assert found["version"] == trained.name
        (listed,) = _json(store.url, "list")["models"]
        assert (listed["state"], listed["serving"]) == ("serving", True)
        monkeypatch.setenv("PERFMODEL_MODELS_OPTIONS", "[1]")
        assert "JSON object" in _run(store.url, "list", code=2).stderr

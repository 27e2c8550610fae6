"""A version answers what was asked beside the one that serves: a real service, real processes."""

from __future__ import annotations

import json
import math
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import synthetic_workloads as made_up
from click.testing import CliRunner
from fastapi.testclient import TestClient
from held_service import one_or_another
from migrated import migrated_sqlite
from trained_version import trained_version
from webdav_server import webdav_store

from perfmodel.cli import cli
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.registry.mirror import local_models
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import State
from perfmodel.store.shadow.shadow_runs import ShadowRunStore
from perfmodel.store.state.database import Database
from perfmodel.training.train import train
from service.app import create_app
from service.settings import Settings
from service.shadow import shadow

#: Longer than a child takes to start, however busy the machine is.
_PATIENCE_S = 240.0

JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
DEVICE = made_up.DEVICE.name


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two versions; to the one called slow everything seemed to take twice as long."""
    folder = tmp_path_factory.mktemp("trained")
    twice = [
        replace(
            one,
            step_time_s=2 * one.step_time_s,
            node_times_s={node: 2 * time_s for node, time_s in one.node_times_s.items()},
        )
        for one in made_up.samples(families=4)
    ]
    slow = train(twice, folder / "slow", members=("gbdt",), folds=2)
    return {"good": trained_version(folder / "good"), "slow": slow}


@pytest.fixture
def models(tmp_path: Path, trained: dict[str, Path]) -> Path:
    for number, kind in {"1": "slow", "2": "good"}.items():
        shutil.copytree(trained[kind], tmp_path / "models" / "default" / number)
    return tmp_path / "models"


@contextmanager
def service(folder: Path, **settings: Any) -> Iterator[TestClient]:
    """Run a service over the versions in a folder; graphs need no library."""
    database, models = migrated_sqlite(folder), folder / "models"
    stated = Settings(
        database=database, keys=folder / "keys.json",
        **{"models": models, "shadow_poll_s": 0.2, "models_poll_s": 0, **settings},
    )  # fmt: skip
    graphs = GraphLibrary(capture=one_or_another, database=Database(database))
    app = create_app(Estimator.from_folder(models, graphs=graphs), stated)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def _ask(client: TestClient, *placements: str) -> list[dict[str, Any]]:
    answers = [
        client.post("/v1/predict", json={"job": JOB, "placement": one}) for one in placements
    ]
    assert {one.status_code for one in answers} == {200}
    return [one.json() for one in answers]


def _report(
    client: TestClient, version: str, until: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    latest_s = time.monotonic() + _PATIENCE_S
    while True:
        report: dict[str, Any] = client.get(f"/v1/models/default/{version}/shadow").json()
        if until(report):
            return report
        assert time.monotonic() < latest_s, report
        time.sleep(0.1)


def _compared(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda report: (
        report["stage"] == "done"
        and bool(report["groups"])
        and report["groups"][0]["asked"] == count
    )


def _post(client: TestClient, path: str, status: int = 200) -> dict[str, Any]:
    response = client.post(f"/v1/models/default/{path}")
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer


def test_a_shadow_answers_what_was_asked_and_is_refused(models: Path, tmp_path: Path) -> None:
    with service(tmp_path) as client:
        [answer, _] = _ask(client, DEVICE, f"2x{DEVICE}")
        step_s = answer["step_time_s"]
        assert client.get("/v1/models/default/1/shadow").json()["stage"] == "none"
        started = _post(client, "1/shadow?why=look")
        assert (started["state"], started["why"], started["by"]) == ("shadow", "look", "guest")
        assert _post(client, "1/shadow")["change_id"] == started["change_id"]
        report = _report(client, "1", _compared(2))
        assert (report["model"], report["against"]) == ("default/1", "default/2")
        whole = report["groups"][0]
        # It has learned that everything takes twice as long.
        assert whole["largest"] == pytest.approx(math.log(2), abs=0.2)
        assert report["most_different"][0]["device"] == DEVICE
        assert (whole["observed"], whole["shadow_failed"]) == (0, 0)
        # Nobody is told, and what serves goes on.
        assert _ask(client, DEVICE) == [answer]
        # A step that was measured says who was right, without anything being compared again.
        seen = {"job": JOB, "placement": DEVICE, "step_time_s": step_s}
        assert client.post("/v1/observations", json=[seen]).status_code == 200
        judged = client.get("/v1/models/default/1/shadow").json()["groups"][0]
        assert (judged["observed"], judged["shadow_nearer"]) == (1, 0)
        assert judged["serving_error"] == pytest.approx(0.0, abs=1e-9)
        assert judged["shadow_error"] == pytest.approx(whole["largest"], abs=0.2)
        # What is asked from now on is compared too.
        _ask(client, f"4x{DEVICE}")
        _report(client, "1", _compared(3))
        refused = _post(client, "1/refuse?why=twice%20as%20slow")
        assert (refused["state"], refused["previous"]) == ("refused", None)
        _post(client, "2/refuse", 422)
        _ask(client, f"8x{DEVICE}")
        # Its findings stay.
        assert client.get("/v1/models/default/1/shadow").json()["groups"][0]["asked"] == 3
        assert client.get("/v1/models/default/9/shadow").status_code == 404


def test_a_killed_comparison_goes_on_and_the_command_shows_it(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "_PAUSE_S", 0.0)
    killed = []
    original = shadow.comparing_child

    @contextmanager
    def killing(header: Any) -> Iterator[Any]:
        with original(header) as child:
            if not killed:
                killed.append(child._process.pid)
                psutil.Process(child._process.pid).send_signal(signal.SIGKILL)
            yield child

    monkeypatch.setattr(shadow, "comparing_child", killing)
    database = migrated_sqlite(tmp_path)
    arguments = ["models", "shadow", "1", "--models", str(models), "--database", database]
    with service(tmp_path) as client:
        _ask(client, DEVICE)
        said = CliRunner().invoke(cli, [*arguments, "--start", "--why", "look"])
        assert said.exit_code == 0 and "Nothing was compared yet." in said.stdout, said.output
        _report(client, "1", _compared(1))
        assert killed
        run = ShadowRunStore(client.app.state.dispatcher.state.database.connections)  # type: ignore[attr-defined]
        found = run.find("default/1")
        assert found is not None and (found.attempts, found.problem) == (0, None)
    shown = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    assert (shown["stage"], shown["groups"][0]["asked"]) == ("done", 1)
    table = CliRunner().invoke(cli, arguments).stdout
    assert "the most different" in table and "resnet50" in table
    refused = CliRunner().invoke(cli, ["models", "refuse", "1", "--models", str(models)])
    assert refused.stdout == "default/1 is refused.\n"


def test_a_shadow_that_cannot_be_loaded_is_given_up_and_says_why(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "_PAUSE_S", 0.0)
    monkeypatch.setattr("perfmodel.store.shadow.shadow_runs.MOST_ATTEMPTS", 1)
    (models / "default" / "1" / "serving.json").write_bytes(b"{}")
    with service(tmp_path) as client:
        _ask(client, DEVICE)
        _post(client, "1/shadow")
        report = _report(client, "1", lambda found: found["stage"] == "given up")
        assert "serving.json" in report["problem"]
        assert _ask(client, DEVICE)


def test_a_shadow_of_a_store_elsewhere_is_fetched(trained: dict[str, Path], tmp_path: Path) -> None:
    with webdav_store(tmp_path / "webdav") as store:
        registry = ModelRegistry(store.open())
        served, other = (registry.publish(trained[one], "default") for one in ("good", "slow"))
        registry.promote("default", served)
        settings = {
            "models": store.url, "models_options": store.options,
            "models_cache": tmp_path / "models", "models_poll_s": 0.2,
        }  # fmt: skip
        local_models(store.url, store.options, tmp_path / "models")
        with service(tmp_path, **settings) as client:
            _ask(client, DEVICE)
            assert not (tmp_path / "models" / "default" / other).exists()
            registry.judge("default", other, State.SHADOW)
            report = _report(client, other, _compared(1))
            assert report["against"] == f"default/{served}"

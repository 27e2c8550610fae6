"""A version answers what was asked beside the one that serves: a real service, real processes."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from held_service import one_or_another
from migrated import migrated_sqlite
from trained_version import trained_version

from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.store.state.database import Database
from service.app import create_app
from service.settings import Settings

#: Longer than a child takes to start, however busy the machine is.
_PATIENCE_S = 240.0

JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_version(tmp_path_factory.mktemp("trained"))


@contextmanager
def service(database: str, folder: Path, **settings: Any) -> Iterator[TestClient]:
    """Run a service over the versions in a folder; graphs need no library."""
    models = folder / "models"
    stated = Settings(
        database=database, models=models, keys=folder / "keys.json",
        **{"shadow_poll_s": 0.2, "models_poll_s": 0, **settings},
    )  # fmt: skip
    graphs = GraphLibrary(capture=one_or_another, database=Database(database))
    app = create_app(Estimator.from_folder(models, graphs=graphs), stated)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_a_shadow_answers_what_was_asked(trained: Path, tmp_path: Path) -> None:
    for number in "12":
        shutil.copytree(trained, tmp_path / "models" / "default" / number)
    with service(migrated_sqlite(tmp_path), tmp_path) as client:
        assert client.post("/v1/models/default/2/promote").status_code == 200
        for placement in ("A10", "T4", "8xA10"):
            ask = {"job": JOB, "placement": placement}
            assert client.post("/v1/predict", json=ask).status_code == 200
        started = client.post("/v1/models/default/1/shadow?why=look").json()
        assert (started["state"], started["why"]) == ("shadow", "look")
        until = time.monotonic() + _PATIENCE_S
        while True:
            report = client.get("/v1/models/default/1/shadow").json()
            if report["groups"] and report["stage"] == "done":
                break
            assert time.monotonic() < until, report
            time.sleep(0.2)
        print(json.dumps(report, indent=1))
        assert report["against"] == "default/2"

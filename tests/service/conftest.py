"""The real application on a real catalogue, with a graph source that needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from made_up_products import product_step
from migrated import migrated_sqlite

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import UnknownModelError
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.ir import Node
from perfmodel.graph.job import Job
from perfmodel.store.state.database import Database
from perfmodel.types import Phase
from service.app import create_app
from service.settings import Settings

KNOWN = ("timm/resnet18", "timm/resnet50", "zoo/megatron-gpt")


def hand_capture(job: Job) -> CapturedStep:
    """Capture the known models as one matrix product with a row for each sample."""
    if job.model not in KNOWN:
        raise UnknownModelError(job.label, known=KNOWN, pointer="/job/model")
    width = 512 if job.model == "timm/resnet18" else 2048
    fused = Node(op="mylib::fused", phase=Phase.FORWARD, inputs=(2,), outputs=())
    return product_step(job.batch_size, width, 1000, fused)


def settings_of(database: str, folder: Path) -> Settings:
    """Return settings with small limits, and keys that are in no other folder."""
    return Settings(
        models=folder / "models",
        database=database,
        keys=folder / "keys.json",
        max_body_bytes=200_000,
        max_upload_bytes=1_000_000,
        max_cells=150_000,
        onnx_time_s=60.0,
    )


def make_app(settings: Settings) -> FastAPI:
    """Build the application of some settings."""
    graphs = GraphLibrary(capture=hand_capture, database=Database(settings.database))
    estimator = Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=graphs)
    return create_app(estimator, settings)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(migrated_sqlite(tmp_path), tmp_path)


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    return make_app(settings)


@pytest.fixture
def fresh(app: FastAPI) -> Iterator[TestClient]:
    """A service of its own for each test."""
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def client(fresh: TestClient) -> TestClient:
    return fresh


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """One service for those tests of a module to which it does not matter what the others did."""
    folder = tmp_path_factory.mktemp("shared")
    app = make_app(settings_of(migrated_sqlite(folder), folder))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def either_app(migrated_url: str, tmp_path: Path) -> FastAPI:
    """A service of its own for each test, once on each kind of database."""
    return make_app(settings_of(migrated_url, tmp_path))


@pytest.fixture
def either(either_app: FastAPI) -> Iterator[TestClient]:
    with TestClient(either_app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def question() -> dict[str, Any]:
    return {
        "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
        "placement": "8xA100-SXM4-80GB",
    }

"""One application for each module, over graphs made by hand and the analytical model."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from made_up_products import product_step
from waiting import PATIENCE_S

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import UnknownModelError
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.store.state.database import Database
from service.app import create_app
from service.settings import Settings

#: Inputs of the one matrix product that each model is. The wide one has 2**20 x 5000 weights of 4
#: bytes, 19.5 GiB: too much for a card of 16 GB, little for one of 80.
WIDTHS = {"timm/resnet18": 512, "timm/resnet50": 2048, "timm/wide": 2**20, "timm/slow": 512}


class Captures:
    """Captures by hand; ``timm/slow`` waits until it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.asked: list[str] = []

    def __call__(self, job: Job) -> CapturedStep:
        self.asked.append(job.label)
        if job.model not in WIDTHS:
            raise UnknownModelError(job.label, known=sorted(WIDTHS), pointer="/job/model")
        if job.model == "timm/slow":
            assert self.go_on.wait(timeout=PATIENCE_S)
        return product_step(job.batch_size, WIDTHS[job.model], 5000)


@pytest.fixture(scope="module")
def captures() -> Captures:
    return Captures()


@pytest.fixture(scope="module")
def app(captures: Captures, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    folder = tmp_path_factory.mktemp("service")
    settings = Settings(
        models=folder / "models",
        database=f"sqlite:///{folder}/graphs.db",
        kubernetes_wait_s=60.0,
        kubernetes_admission_wait_s=60.0,
    )
    graphs = GraphLibrary(capture=captures, database=Database(settings.database))
    estimator = Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=graphs)
    return create_app(estimator, settings)


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client

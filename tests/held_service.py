"""A model and a source of graphs that answer when a test lets them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from made_up_products import product_step
from migrated import migrated_sqlite
from waiting import PATIENCE_S, until

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.captures.turns import Turns
from perfmodel.estimator.jobs.capture_terms import terms_of_request
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import Prediction
from perfmodel.store.state.database import Database
from perfmodel.types import Basis
from service.app import create_app
from service.dispatch.dispatcher import Dispatcher
from service.settings import Settings


class Gate:
    """Open at first; while it is shut, whoever comes waits."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        # A gate that is forgotten fails a test and does not hang it.
        assert self._open.wait(PATIENCE_S), "nobody opened the gate"


@dataclass
class HeldModel:
    """A multiple of the analytical time, as if it were learned."""

    version: str = "held/1"
    times: int = 2
    gate: Gate = field(default_factory=Gate)
    calls: int = 0

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        self.calls += 1
        self.gate.pass_through()
        return [
            Prediction(
                time_s=self.times * one.time_s,
                low_s=one.time_s,
                high_s=2 * self.times * one.time_s,
                coverage=0.9,
                basis=Basis.INTERPOLATED,
                out_of_distribution=False,
                nearest=(),
                model_version=self.version,
                warnings=(),
            )
            for one in AnalyticalModel().predict(workloads)
        ]


class NonsenseModel(HeldModel):
    """Answers what is no number."""

    def predict(self, workloads: Sequence[Workload]) -> list[Prediction]:
        return [replace(each, time_s=float("nan")) for each in super().predict(workloads)]


@dataclass
class HeldCapture:
    """Captures as another does, a few jobs at a time, when the gate is open."""

    capture: Callable[[Job], CapturedStep]
    gate: Gate = field(default_factory=Gate)
    turns: Turns = field(default_factory=lambda: Turns(2, most_wait_s=PATIENCE_S))

    def __call__(self, job: Job) -> CapturedStep:
        with self.turns.turn(terms_of_request().caller):
            self.gate.pass_through()
            return self.capture(job)


def one_or_another(job: Job) -> CapturedStep:
    """Capture every model as one matrix product that its name makes wider or narrower."""
    return product_step(job.batch_size, 64 + 8 * len(str(job.model)), 10)


@dataclass
class HeldService:
    """A service whose model and captures wait for a test."""

    app: FastAPI
    client: TestClient
    model: HeldModel
    capture: HeldCapture

    @property
    def dispatcher(self) -> Dispatcher:
        dispatcher: Dispatcher = self.app.state.dispatcher
        return dispatcher

    def ask(self, route: str, status: int = 200, **question: Any) -> dict[str, Any]:
        """Ask, and return the answer, which must have a status."""
        response = self.client.post(f"/v1/{route}", json=question)
        assert response.status_code == status, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def finish(self) -> None:
        """Open every gate and wait until nothing is under way."""
        self.model.gate.open()
        self.capture.gate.open()
        until(lambda: not any(self._depths()) and not self.dispatcher.deadlines.under_way,
              every_s=0.005)  # fmt: skip

    def _depths(self) -> list[float]:
        return [depth for name, depth in self.metrics().items() if "queue_depth" in name]

    def metrics(self) -> dict[str, float]:
        """Return what is counted."""
        lines = self.client.get("/metrics").text.splitlines()
        pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}


@contextmanager
def held_service(folder: Path, **settings: Any) -> Iterator[HeldService]:
    """Start a service whose gates are open."""
    model, capture = HeldModel(), HeldCapture(one_or_another)
    database = migrated_sqlite(folder)
    graphs = GraphLibrary(capture=capture, database=Database(database))
    estimator = Estimator(accelerators=Catalog.default(), model=model, graphs=graphs)
    stated = Settings(database=database, **{"models": folder / "models", **settings})
    app = create_app(estimator, stated)
    with TestClient(app, raise_server_exceptions=False) as client:
        service = HeldService(app=app, client=client, model=model, capture=capture)
        yield service
        service.model.gate.open()
        service.capture.gate.open()

"""A service with keys, for tests of who may do what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from made_up_products import product_step
from migrated import migrated_sqlite

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from perfmodel.store.state.database import Database
from service.access.key_file import KeyFile
from service.access.keys import new_key
from service.app import create_app
from service.settings import Settings

CREATED = "2026-01-01T00:00:00+00:00"


def one_product(job: Job) -> CapturedStep:
    """Capture every model as one matrix product."""
    return product_step(job.batch_size, 64, 10)


@dataclass(frozen=True)
class Guarded:
    """A service with one key of each scope."""

    app: FastAPI
    client: TestClient
    folder: Path
    tokens: dict[str, str]

    def bearer(self, scope: str) -> dict[str, str]:
        """Return the header that shows the key of a scope."""
        return {"Authorization": f"Bearer {self.tokens[scope]}"}


def make_app(
    folder: Path, *, capture: Callable[[Job], CapturedStep] = one_product, **settings: object
) -> FastAPI:
    """Build an application whose state lies in a folder."""
    database = migrated_sqlite(folder)
    graphs = GraphLibrary(capture=capture, database=Database(database))
    estimator = Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=graphs)
    return create_app(estimator, Settings(database=database, **settings))  # type: ignore[arg-type]


def guarded_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Run a service with keys; a module makes a fixture of it."""
    folder = tmp_path_factory.mktemp("guarded")
    keys = KeyFile(folder / "keys.json")
    tokens = {}
    for scope in ("predict", "observe", "admin"):
        tokens[scope], key = new_key(scope, [scope], created_at=CREATED)
        keys.add(key)
    app = make_app(folder)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield Guarded(app=app, client=client, folder=folder, tokens=tokens)

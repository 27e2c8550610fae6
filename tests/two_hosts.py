"""Two services on one database, as two hosts would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fastapi.testclient import TestClient
from guarded_service import one_product

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.store.state.database import Database
from service.app import create_app
from service.settings import Settings


@contextmanager
def two_hosts(database: str, *folders: Path) -> Iterator[list[TestClient]]:
    """Run two services.

    Parameters
    ----------
    database : str
        URL of what they share.
    *folders : Path
        Of the keys and models of each; one for both where they share these too.
    """
    first, second = (_host(database, folder) for folder in (folders[0], folders[-1]))
    with first, second:
        yield [first, second]


def _host(database: str, folder: Path) -> TestClient:
    estimator = Estimator(
        accelerators=Catalog.default(),
        model=AnalyticalModel(),
        graphs=GraphLibrary(capture=one_product, database=Database(database)),
    )
    settings = Settings(
        database=database,
        keys=folder / "keys.json",
        models=folder / "models",
        kubernetes_wait_s=60.0,
    )
    return TestClient(create_app(estimator, settings))

"""A real service on a socket, and the estimator behind it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from adapter_world import FAILURES, capture, raw_server
from running import running

from perfmodel.adapters.ask import Service
from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from service.app import create_app
from service.settings import Settings

#: Run by interpreters of other venvs, never imported here.
collect_ignore = ["dstack_child.py", "pollux_policy_child.py"]


@pytest.fixture(scope="session")
def estimator() -> Estimator:
    return Estimator(
        accelerators=Catalog.default(),
        model=AnalyticalModel(),
        graphs=GraphLibrary(capture=capture),
    )


@pytest.fixture(scope="session")
def service_url(estimator: Estimator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("service")
    settings = Settings(models=folder, database=f"sqlite:///{folder}/service.db")
    with running(create_app(estimator, settings)) as url:
        yield url


@pytest.fixture
def service(service_url: str) -> Service:
    return Service(service_url, timeout_s=60.0)


@pytest.fixture(params=["down", *FAILURES])
def failing_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of a service that never answers, in each way."""
    if request.param == "down":
        # Kept, so that nobody begins to listen there.
        with socket.socket() as kept:
            kept.bind(("127.0.0.1", 0))
            yield f"http://127.0.0.1:{kept.getsockname()[1]}"
        return
    with raw_server(FAILURES[request.param]) as url:
        yield url


@pytest.fixture
def failing(failing_url: str) -> Service:
    """Return a service that never answers, in each way."""
    return Service(failing_url, timeout_s=0.3)

"""One real service on a socket for all tests of the client, and clients of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from guarded_service import make_app
from running import running

from perfmodel.client import Client


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    folder = tmp_path_factory.mktemp("client")
    return make_app(folder, models=folder / "models", max_body_bytes=1_000_000)


@pytest.fixture(scope="session")
def url(app: FastAPI) -> Iterator[str]:
    with running(app) as found:
        yield found


@pytest.fixture
def service(url: str) -> Iterator[Client]:
    with Client(url, timeout_s=300.0) as client:
        yield client

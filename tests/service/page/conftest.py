"""A service on a real socket, and one browser that shows its page."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import uvicorn
from chromium import Tab, browser
from fastapi import FastAPI

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import UnknownModelError
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.analytical import AnalyticalModel
from perfmodel.estimator.graphs import GraphLibrary
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.store.database import Database
from perfmodel.types import Phase, Role
from service.access.key_file import KeyFile
from service.access.keys import new_key
from service.app import create_app
from service.settings import Settings

KNOWN = ("timm/resnet18", "timm/resnet50")

_PATIENCE_S = 20.0


def hand_capture(job: Job) -> CapturedStep:
    """Capture the known models as two matrix products with an activation between them."""
    if job.model not in KNOWN:
        raise UnknownModelError(job.label, known=KNOWN, pointer="/job/model")
    width = 2048 if job.model == "timm/resnet18" else 4096
    rows = job.batch_size
    shapes = ((rows, width), (width, width), (rows, width), (rows, width), (width, 10), (rows, 10))
    roles = (
        Role.INPUT, Role.PARAMETER, Role.ACTIVATION, Role.ACTIVATION, Role.PARAMETER,
        Role.ACTIVATION,
    )  # fmt: skip
    tensors = tuple(
        Tensor(shape=shape, dtype="float32", role=role, storage=position)
        for position, (shape, role) in enumerate(zip(shapes, roles, strict=True))
    )
    nodes = (
        Node(op="mm", phase=Phase.FORWARD, inputs=(0, 1), outputs=(2,)),
        Node(op="relu", phase=Phase.FORWARD, inputs=(2,), outputs=(3,)),
        Node(op="mm", phase=Phase.FORWARD, inputs=(3, 4), outputs=(5,)),
    )
    return CapturedStep(graph=Graph(nodes=nodes, tensors=tensors))


class Service:
    """A service at an address."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, body: Any = None, **headers: str) -> Any:
        """Ask it, without the page."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"Content-Type": "application/json", **headers})
        with urlopen(request, timeout=_PATIENCE_S) as answer:
            return json.load(answer)


@contextlib.contextmanager
def running(app: FastAPI) -> Iterator[Service]:
    """Serve an application on a free port."""
    config = uvicorn.Config(app, port=0, log_level="warning", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until = time.monotonic() + _PATIENCE_S
        while not server.started:
            assert thread.is_alive() and time.monotonic() < until, "the service does not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Service(f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(_PATIENCE_S)


def make_app(folder: Path) -> FastAPI:
    """Build an application whose state and keys lie in a folder."""
    settings = Settings(models=folder / "models", database=f"sqlite:///{folder}/state.db")
    graphs = GraphLibrary(capture=hand_capture, database=Database(settings.database))
    estimator = Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=graphs)
    return create_app(estimator, settings)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(make_app(tmp_path_factory.mktemp("page"))) as service:
        yield service


@pytest.fixture(scope="session")
def token_and_guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    """A service that wants a key, and the key."""
    folder = tmp_path_factory.mktemp("guarded")
    token, key = new_key("page", ["predict"], created_at="2026-01-01T00:00:00+00:00")
    KeyFile(folder / "keys.json").add(key)
    with running(make_app(folder)) as service:
        yield token, service


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browser(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.fixture
def tab(chrome: Tab) -> Iterator[Tab]:
    """The page of the browser; whatever a test does, nothing may go wrong in its console."""
    chrome.look()
    chrome.requests.clear()
    chrome.complaints.clear()
    yield chrome
    # Chromium notes itself what the service refused, and what could not be reached.
    noted = "Failed to load resource"
    assert not [said for said in chrome.complaints if not said.startswith(noted)]


@pytest.fixture
def shown(tab: Tab, service: Service) -> Callable[..., Tab]:
    """Open the page with a question in its address and wait for all pictures."""

    def open_page(query: str = "", *, of: Service = service) -> Tab:
        tab.open(f"{of.url}/{query}")
        tab.wait("document.querySelector('#throughput') && document.querySelector('#factors svg')")
        tab.wait("document.querySelector('#curve svg') && document.querySelector('#compare svg')")
        tab.wait("!document.querySelector('.waiting')")
        return tab

    return open_page

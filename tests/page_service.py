"""A service on a real socket, for a browser."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import uvicorn
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

"""A service on a real socket, for a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from asking import Service
from fastapi import FastAPI
from running import running

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import UnknownModelError
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.store.state.database import Database
from perfmodel.types import Phase, Role
from service.app import create_app
from service.settings import Settings

KNOWN = ("timm/resnet18", "timm/resnet50")


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


@contextlib.contextmanager
def running_service(app: FastAPI) -> Iterator[Service]:
    """Serve an application on a free port."""
    with running(app) as url:
        yield Service(url)


def make_app(folder: Path) -> FastAPI:
    """Build an application whose state and keys lie in a folder."""
    settings = Settings(models=folder / "models", database=f"sqlite:///{folder}/state.db")
    graphs = GraphLibrary(capture=hand_capture, database=Database(settings.database))
    estimator = Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=graphs)
    return create_app(estimator, settings)

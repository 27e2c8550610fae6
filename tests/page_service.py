"""A service on a real socket, for a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from asking import Service
from fastapi import FastAPI
from running import running
from sqlalchemy import insert
from waiting import until

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import UnknownModelError
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.ir import Graph, Node, Tensor
from perfmodel.graph.job import Job
from perfmodel.store.feedback.alarm_records import Alarm, AlarmState, Remedy
from perfmodel.store.retraining import RetrainingStore
from perfmodel.store.retraining.retraining_records import RetrainingState
from perfmodel.store.shadow.comparisons import Comparison, ComparisonStore
from perfmodel.store.shadow.shadow_runs import ShadowRunStore
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.shared_store import row_of
from perfmodel.store.sql.tables import ALARMS
from perfmodel.store.state.database import Database
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_records import StoredObservation
from perfmodel.store.state.observations import ObservationStore
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


def make_app_with_versions(folder: Path) -> FastAPI:
    """Build an application over the trained versions in a folder, which compares nothing itself."""
    settings = Settings(
        models=folder / "models",
        database=f"sqlite:///{folder}/state.db",
        shadow_poll_s=0,
        models_poll_s=0,
    )
    graphs = GraphLibrary(capture=hand_capture, database=Database(settings.database))
    return create_app(Estimator.from_folder(settings.models_folder, graphs=graphs), settings)


def fill_shadow(database: str, model: str, against: str) -> None:
    """Keep made-up comparisons of two versions, and what was measured of one question."""
    connections = Connections(database)
    found = []
    for number in range(60):
        device = ("T4", "A100-SXM4-80GB", "H100-SXM5-80GB")[number % 3]
        serving_s = 0.05 + 0.002 * number
        found.append(
            Comparison(
                question=f"{number:032x}", label=f"timm/resnet50 training batch {number + 1}",
                device=device, mode="training" if number % 2 else "inference", family="resnet",
                placement_kind="one accelerator" if number % 4 else "several hosts",
                job_family="f", batch_size=number + 1, accumulation_steps=1,
                placement=f'"{device}"', named_placement=f'"{device}"', serving_s=serving_s,
                shadow_s=serving_s * (0.8 + 0.2 * (number % 3) + 0.004 * number),
                answered_ratio=0.01 * (number % 5),
            )
        )  # fmt: skip
    failing = replace(
        found[0], question="f" * 32, shadow_s=None, answered_ratio=None,
        shadow_problem="The answer is no finite number above 0, or its interval is none.",
    )  # fmt: skip
    ComparisonStore(connections).add(model, against, [*found, failing])
    seen = StoredObservation(
        job=StoredJob(ref="r", family="f", content="{}"), key="1", content_hash="1",
        placement='"A100-SXM4-80GB"', batch_size=2, accumulation_steps=1, step_time_s=0.06,
        sync_time_s=None,
    )  # fmt: skip
    ObservationStore(connections).add([seen])
    ShadowRunStore(connections).enter(model)
    connections.close()


def fill_retrainings(database: str) -> None:
    """Keep a retraining that the gate refused, and one that is under way."""
    connections = Connections(database)
    store = RetrainingStore(connections)
    for why, refused in (("more T4", True), ("torch 2.9", False)):
        entered, _ = store.start("default", why=why, caller="me")
        claim = store.claim("worker", lease_s=3_600, name=entered.name)
        assert claim is not None
        store.tell(claim, phase="fit", progress="fold 3 of 5", fraction=0.4)
        if refused:
            store.end(claim, RetrainingState.REFUSED, decision=_REFUSAL, reason=_REFUSAL["why"])
    connections.close()


def fill_alarm(database: str) -> None:
    """Keep an alarm that is open."""
    alarm = Alarm(
        name="a1", kind="accelerator", value="T4", state=AlarmState.OPEN, shift=0.4, count=12,
        since_observation=1, opened_observation=12, since="2026-11-01T08:00:00.000+00:00",
        opened_at="2026-11-02T08:00:00.000+00:00",
        remedies=(
            Remedy(action="retrain", why="It learns it.", command="perfmodel retrain --why T4"),
        ),
    )  # fmt: skip
    connections = Connections(database)
    with connections.writing() as connection:
        connection.execute(insert(ALARMS).values(**row_of(alarm)))
    connections.close()


_REFUSAL: dict[str, Any] = {
    "accepted": False, "state": "refused", "serving": "20261101T080000Z-11d0c2a9",
    "why": "error (frozen, device T4): it is off by 0.21 there, the other by 0.12.", "report": "",
    "findings": [
        {"check": "error", "where": "frozen, device T4", "detail": "0.21 there, the other 0.12."}
    ],
    "groups": [
        {
            "judging_set": "frozen", "dimension": "device", "group": "T4", "steps": 120,
            "units": 3, "candidate": 0.21, "serving": 0.12, "low": 0.05, "high": 0.13,
            "margin": 0.02, "assumed": 0.1,
        }
    ],
}  # fmt: skip


def observe_drift(service: Service, *, count: int = 60) -> None:
    """Report steps of many jobs, from the middle on twice as long on one accelerator."""
    job = {"model": "timm/resnet50", "mode": "training"}
    seen = []
    for number in range(count):
        device = ("T4", "A10G")[number % 2]
        asked = {"job": {**job, "batch_size": number + 1}, "placement": device}
        step_s = service.ask("/v1/predict", asked)["step_time_s"]
        slower = 2.0 if device == "T4" and number > count / 2 else 1.0
        seen.append({**asked, "step_time_s": step_s * slower * (1.0 + 0.01 * (number % 5))})
    for one in seen:
        service.ask("/v1/observations", [one])
    until(lambda: service.ask("/v1/drift")["compared"] >= count, every_s=0.2)

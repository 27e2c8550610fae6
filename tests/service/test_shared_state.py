"""Two services on one database, as two hosts would be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import one_product

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.analytical import AnalyticalModel
from perfmodel.estimator.graphs import GraphLibrary
from perfmodel.requests import parse_job
from perfmodel.store.database import Database
from service.app import create_app
from service.settings import Settings
from service.state import State

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
A100 = "A100-SXM4-80GB"


@pytest.fixture
def hosts(migrated_url: str, tmp_path: Path) -> Iterator[list[TestClient]]:
    clients = []
    for _ in range(2):
        estimator = Estimator(
            accelerators=Catalog.default(),
            model=AnalyticalModel(),
            graphs=GraphLibrary(capture=one_product, database=Database(migrated_url)),
        )
        settings = Settings(database=migrated_url, keys=tmp_path / "keys.json")
        clients.append(TestClient(create_app(estimator, settings)))
    with clients[0], clients[1]:
        yield clients


def _state(client: TestClient) -> State:
    state: State = client.app.state.desk.state  # type: ignore[attr-defined]
    return state


def test_a_job_that_one_registered_is_known_to_the_other(hosts: list[TestClient]) -> None:
    ref = hosts[0].post("/v1/jobs", json={"job": JOB}).json()["ref"]
    by_name, by_ref = (
        hosts[1].post("/v1/predict", json={"job": job, "placement": A100}) for job in (JOB, ref)
    )
    assert by_name.status_code == 200
    assert by_ref.content == by_name.content
    assert hosts[1].post("/v1/jobs", json={"job": JOB}).json()["created"] is False


def test_an_observation_reaches_the_other_within_two_seconds(hosts: list[TestClient]) -> None:
    job = parse_job(JOB)
    assert [_state(host).observations_of(job) for host in hosts] == [(), ()]
    answer = hosts[0].post("/v1/predict", json={"job": JOB, "placement": A100}).json()
    sent = {"job": JOB, "placement": A100, "step_time_s": answer["step_time_s"], "key": "1"}
    assert hosts[0].post("/v1/observations", json=[sent]).json()["accepted"] == 1
    stored = time.monotonic()
    assert len(_state(hosts[0]).observations_of(job)) == 1  # here at once
    while not _state(hosts[1]).observations_of(job) and time.monotonic() < stored + 20:
        time.sleep(0.02)
    assert time.monotonic() - stored < 2
    # Sent again, to the other: it is known there.
    assert hosts[1].post("/v1/observations", json=[sent]).json()["known"] == 1

"""Two services on one database, as two hosts would be."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import one_product
from postgresql import PostgresqlServer

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
        settings = Settings(
            database=migrated_url,
            keys=tmp_path / "keys.json",
            models=tmp_path / "models",
            kubernetes_wait_s=10.0,
        )
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


def _answers(client: TestClient) -> dict[str, float]:
    """Return what a service says of one job on an A100, by every route that says something.

    Times in seconds, where a route tells rates they are turned round.
    """
    matrix = client.post("/v1/matrix", json={"jobs": [JOB], "placements": [A100]}).json()
    curve = client.post("/v1/curve", json={"job": JOB, "accelerator": A100, "counts": [1]}).json()
    rank = client.post("/v1/rank", json={"job": JOB, "placements": [A100]}).json()
    slurm = client.post(
        "/v1/adapters/slurm", json={"job": JOB, "candidates": {"a": A100}, "total_samples": 1e13}
    ).text
    kserve = client.post(
        "/v2/models/perfmodel/infer",
        json={
            "inputs": [
                {"name": "request", "shape": [1], "datatype": "BYTES",
                 "data": [json.dumps({"job": JOB, "placement": A100})]}
            ]
        },
    ).json()  # fmt: skip
    rates = {one["name"]: one["data"][0] for one in kserve["outputs"]}
    return {
        "predict": client.post("/v1/predict", json={"job": JOB, "placement": A100}).json()[
            "step_time_s"
        ],
        "matrix": matrix["step_time_s"][0][0],
        "curve": curve["step_time_s"][0],
        "rank": rank["best"][0]["estimate"]["step_time_s"],
        "slurm": float(slurm.split("time_limit_min=")[1]) / 1e10,
        "kserve": 64 / rates["samples_per_second"],
    }


def _extender_scores(client: TestClient) -> dict[str, int]:
    body = {
        "Pod": {
            "metadata": {"annotations": {"perfmodel/job": json.dumps(JOB)}},
            "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        },
        "Nodes": {
            "items": [
                {"metadata": {"name": name, "labels": {"perfmodel/accelerator": name}}}
                for name in (A100, "T4")
            ]
        },
    }
    answer = client.post("/kubernetes/scheduler/prioritize", json=body).json()
    return {one["Host"]: one["Score"] for one in answer}


def test_an_observation_counts_in_every_answer_of_the_other_within_two_seconds(
    hosts: list[TestClient],
) -> None:
    here, there = hosts
    before = _answers(there)
    assert _extender_scores(there)[A100] == 10
    # A hundred times as slow as predicted: slower than on a T4.
    sent = {"job": JOB, "placement": A100, "step_time_s": 100 * before["predict"]}
    taken = [{**sent, "key": str(number)} for number in range(3)]
    assert here.post("/v1/observations", json=taken).json()["accepted"] == 3
    stored = time.monotonic()
    here_now = _answers(here)
    assert all(here_now[route] > 1.5 * before[route] for route in before), (before, here_now)
    while _answers(there) != here_now and time.monotonic() < stored + 20:
        time.sleep(0.02)
    while _extender_scores(there)[A100] == 10 and time.monotonic() < stored + 20:
        time.sleep(0.02)
    assert time.monotonic() - stored < 2
    assert _answers(there) == here_now
    assert _extender_scores(there) == _extender_scores(here)
    assert _extender_scores(there)["T4"] == 10


def test_a_price_reaches_the_other_within_two_seconds(hosts: list[TestClient]) -> None:
    by_cost = {"job": JOB, "placements": [A100], "by": "cost"}
    for price in (2.0, 4.0):
        assert hosts[0].put(f"/v1/prices/{A100}", json={"per_hour": price}).status_code == 200
        stored = time.monotonic()
        wanted = hosts[0].post("/v1/rank", json=by_cost).content
        while hosts[1].post("/v1/rank", json=by_cost).content != wanted:
            assert time.monotonic() < stored + 20
            time.sleep(0.02)
        assert time.monotonic() - stored < 2


def test_known_questions_are_answered_while_the_database_hangs(
    hosts: list[TestClient], postgresql: PostgresqlServer
) -> None:
    client = hosts[0]
    if _state(client).database.connections.is_sqlite:
        pytest.skip("no server stands between SQLite and its file")
    ref = client.post("/v1/jobs", json={"job": JOB}).json()["ref"]
    by_ref = {"job": ref, "placement": A100}
    before = _answers(client), client.post("/v1/predict", json=by_ref).content
    new = {"job": {**JOB, "batch_size": 32}}
    with postgresql.hanging():
        began = time.monotonic()
        # Whoever must be written down is told to come back, in bounded time.
        assert client.post("/v1/observations", json=[]).status_code == 422
        refused = client.post("/v1/jobs", json=new)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert time.monotonic() - began < 15
        for _ in range(3):
            began = time.monotonic()
            assert (_answers(client), client.post("/v1/predict", json=by_ref).content) == before
            assert time.monotonic() - began < 2
        assert client.get("/v2/health/ready").status_code == 200
    until = time.monotonic() + 20
    while (kept := client.post("/v1/jobs", json=new)).status_code == 503:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert kept.status_code == 201


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

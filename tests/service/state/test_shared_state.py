"""Two services on one database, as two hosts would be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from postgresql import PostgresqlServer
from two_hosts import two_hosts
from waiting import until

from perfmodel.requests import parse_job
from service.state.state import State

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
A100 = "A100-SXM4-80GB"


@pytest.fixture
def hosts(migrated_url: str, tmp_path: Path) -> Iterator[list[TestClient]]:
    with two_hosts(migrated_url, tmp_path) as clients:
        yield clients


def _state(client: TestClient) -> State:
    state: State = client.app.state.dispatcher.state  # type: ignore[attr-defined]
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


def test_an_observation_counts_in_every_answer_of_the_other(hosts: list[TestClient]) -> None:
    here, there = hosts
    before = _answers(there)
    assert _extender_scores(there)[A100] == 10
    # A hundred times as slow as predicted: slower than on a T4.
    sent = {"job": JOB, "placement": A100, "step_time_s": 100 * before["predict"]}
    taken = [{**sent, "key": str(number)} for number in range(3)]
    assert here.post("/v1/observations", json=taken).json()["accepted"] == 3
    here_now = _answers(here)
    assert all(here_now[route] > 1.5 * before[route] for route in before), (before, here_now)
    until(lambda: _answers(there) == here_now)
    until(lambda: _extender_scores(there)[A100] < 10)
    assert _answers(there) == here_now
    assert _extender_scores(there) == _extender_scores(here)
    assert _extender_scores(there)["T4"] == 10


def test_a_price_reaches_the_other(hosts: list[TestClient]) -> None:
    by_cost = {"job": JOB, "placements": [A100], "by": "cost"}
    here, there = hosts

    def agree() -> bool:
        first, second = (host.post("/v1/rank", json=by_cost).content for host in hosts)
        return first == second

    # One that was added, and one that was changed.
    for per_hour in (2.0, 3.0):
        assert here.put(f"/v1/prices/{A100}", json={"per_hour": per_hour}).status_code == 200
        until(agree)
        found = there.get("/v1/prices").json()["prices"]
        assert [price["per_hour"] for price in found] == [per_hour]


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
        # Whoever must be written down is told to come back, while it still hangs.
        assert client.post("/v1/observations", json=[]).status_code == 422
        refused = client.post("/v1/jobs", json=new)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        for _ in range(3):
            assert (
                _answers(client),
                client.post("/v1/predict", json=by_ref).content,
            ) == before
        assert client.get("/v2/health/ready").status_code == 200
    until(lambda: client.post("/v1/jobs", json=new).status_code == 201, every_s=0.1)


def test_an_observation_reaches_the_other(hosts: list[TestClient]) -> None:
    here, there = hosts
    family = parse_job(JOB).family
    assert [_state(host).feed.of(family) for host in hosts] == [(), ()]
    answer = here.post("/v1/predict", json={"job": JOB, "placement": A100}).json()
    step_time_s = answer["step_time_s"]
    sent = {"job": JOB, "placement": A100, "step_time_s": step_time_s, "key": "1"}
    assert here.post("/v1/observations", json=[sent]).json()["accepted"] == 1
    assert len(_state(here).feed.of(family)) == 1  # here at once
    until(lambda: len(_state(there).feed.of(family)) > 0)
    # Sent again, to the other: it is known there.
    assert there.post("/v1/observations", json=[sent]).json()["known"] == 1


@pytest.mark.parametrize("excluded", [False, True])
def test_what_is_taken_back_from_one_counts_nowhere_for_the_other(
    hosts: list[TestClient], excluded: bool
) -> None:
    here, there = hosts
    before = _answers(there)
    sent = {"job": JOB, "placement": A100, "step_time_s": 100 * before["predict"]}
    taken = [{**sent, "key": str(number)} for number in range(3)]
    assert here.post("/v1/observations", json=taken).json()["accepted"] == 3
    until(lambda: _answers(there) == _answers(here) != before)
    until(lambda: _extender_scores(there)[A100] < 10)
    words = "/v1/observations?after=2020-01-01T00:00:00Z"
    if excluded:
        assert here.patch(words, json={"state": "excluded"}).json() == {"changed": 3}
    else:
        assert here.delete(words).json() == {"removed": 3}
    assert _answers(here) == before  # here at once
    until(lambda: _answers(there) == before)
    for host in hosts:
        until(lambda host=host: _extender_scores(host)[A100] == 10)  # type: ignore[misc]
    assert _answers(here) == before

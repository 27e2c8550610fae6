"""Volcano's extender dialect, to the byte."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_bodies import A100, H100, T4, job_text, node, pod
from fastapi import FastAPI
from fastapi.testclient import TestClient

PREFIX = "/kubernetes/volcano"


def task(a_pod: dict[str, Any]) -> dict[str, Any]:
    """Return a TaskInfo, as Go writes a struct without tags."""
    return {
        "UID": "7f0e", "Job": "team-a/train", "Name": "train-0", "Namespace": "team-a",
        "TaskRole": "worker", "Resreq": {"MilliCPU": 8000, "Memory": 68719476736},
        "InitResreq": {"MilliCPU": 8000}, "Priority": 1, "Pod": a_pod,
    }  # fmt: skip


def info(name: str, product: str | None) -> dict[str, Any]:
    """Return a NodeInfo."""
    return {
        "Name": name, "Node": node(name, product), "Idle": {"MilliCPU": 96000}, "Used": {},
        "Allocatable": {}, "Capacity": {}, "Tasks": {},
    }  # fmt: skip


NODES = [info("n1", H100), info("n2", T4), info("n3", H100), info("c1", None)]


def _scores(client: TestClient, a_pod: dict[str, Any]) -> dict[str, float]:
    response = client.post(f"{PREFIX}/prioritize", json={"task": task(a_pod), "nodes": NODES})
    assert response.status_code == 200
    answer = response.json()
    assert answer.keys() == {"nodeScore", "errorMessage"}
    assert answer["errorMessage"] == ""
    scores: dict[str, float] = answer["nodeScore"]
    return scores


def test_prioritize_answers_a_map_of_scores(client: TestClient) -> None:
    body = {"task": task(pod(job_text())), "nodes": [info("n1", H100), info("c1", None)]}
    response = client.post(f"{PREFIX}/prioritize", json=body)
    assert response.content == b'{"nodeScore":{"n1":100.0,"c1":50.0},"errorMessage":""}'


def test_scores_are_percent_of_the_best_throughput(client: TestClient) -> None:
    rates = {
        name: client.post(
            "/v1/predict",
            json={
                "job": {"model": "timm/resnet50", "mode": "inference", "batch_size": 64},
                "placement": name,
            },
        ).json()["throughput"]["samples_per_second"]
        for name in ("H100-SXM5-80GB", "T4")
    }
    scores = _scores(client, pod(job_text()))
    assert scores["n1"] == scores["n3"] == 100.0
    assert scores["n2"] == pytest.approx(100 * rates["T4"] / rates["H100-SXM5-80GB"], abs=1e-4)


def test_an_unknown_job_scores_all_nodes_alike_in_a_map(client: TestClient) -> None:
    for a_pod in (pod(), pod(job_text("timm/nothing")), pod("{")):
        assert set(_scores(client, a_pod).values()) == {50.0}


def test_no_nodes_get_an_empty_map(client: TestClient) -> None:
    for nodes in ([], None):
        body = {"task": task(pod(job_text())), "nodes": nodes}
        response = client.post(f"{PREFIX}/prioritize", json=body)
        assert response.content == b'{"nodeScore":{},"errorMessage":""}'


def test_predicate_passes_in_volcano_s_words(client: TestClient) -> None:
    body = {"task": task(pod(job_text())), "node": info("n1", H100)}
    assert client.post(f"{PREFIX}/predicate", json=body).content == b'{"status":"","code":0}'
    body = {"task": task(pod()), "node": None}
    assert client.post(f"{PREFIX}/predicate", json=body).content == b'{"status":"","code":0}'


def test_predicate_refuses_what_does_not_fit(client: TestClient) -> None:
    wide = task(pod(job_text("timm/wide", batch_size=8)))
    answer = client.post(f"{PREFIX}/predicate", json={"task": wide, "node": info("n2", T4)}).json()
    assert answer["code"] == 3
    assert answer["status"].startswith("predicted OOM ")
    ample = client.post(f"{PREFIX}/predicate", json={"task": wide, "node": info("n1", H100)})
    assert ample.json() == {"status": "", "code": 0}


def test_a_job_that_does_not_fit_scores_nothing(client: TestClient) -> None:
    scores = _scores(client, pod(job_text("timm/wide", batch_size=8)))
    assert (scores["n1"], scores["n2"]) == (100.0, 0.0)


def test_votes_on_jobs_abstain(client: TestClient) -> None:
    response = client.post(f"{PREFIX}/jobEnqueueable", json={"job": {"UID": "team-a/train"}})
    assert response.content == b'{"status":0}'


def test_a_session_is_predicted_before_its_tasks_are_asked_about(
    client: TestClient, app: FastAPI, captures: Any
) -> None:
    a_pod = pod(job_text("timm/resnet18", batch_size=24))
    session = {
        "Jobs": {"team-a/train": {"UID": "team-a/train", "Tasks": {"7f0e": task(a_pod)}}},
        "Nodes": {"x1": info("x1", A100)},
        "Queues": {},
        "NamespaceInfo": {},
        "RevocableNodes": {},
        "NodeList": ["x1"],
    }
    before = captures.asked.count("timm/resnet18")
    assert client.post(f"{PREFIX}/onSessionOpen", json=session).content == b"{}"
    assert app.state.kubernetes.nodes.label("x1").value == A100

    async def predicted() -> None:
        await app.state.volcano_session

    assert client.portal is not None
    client.portal.call(predicted)
    assert captures.asked.count("timm/resnet18") == before + 1
    assert _scores(client, a_pod)["n1"] == 100.0
    assert captures.asked.count("timm/resnet18") == before + 1
    assert client.post(f"{PREFIX}/onSessionClose", json={}).content == b"{}"


def test_an_odd_session_is_taken(client: TestClient) -> None:
    for session in ({}, {"Jobs": {"j": None, "k": {"Tasks": {"t": 3}}}, "Nodes": {"n": None}}):
        assert client.post(f"{PREFIX}/onSessionOpen", json=session).content == b"{}"


def test_garbage_is_the_sender_s_mistake(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    for verb in ("prioritize", "predicate", "jobEnqueueable", "onSessionOpen"):
        assert client.post(f"{PREFIX}/{verb}", content=b"{", headers=headers).status_code == 400
        assert client.post(f"{PREFIX}/{verb}", json=[]).status_code == 422


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"nodes": NODES}, "/task"),
        ({"task": task(pod()), "Nodez": NODES}, "/nodes"),
        ({"task": task(pod()), "nodes": {"n1": NODES[0]}}, "/nodes"),
    ],
)
def test_a_request_without_its_parts_is_refused(
    client: TestClient, body: dict[str, Any], pointer: str
) -> None:
    response = client.post(f"{PREFIX}/prioritize", json=body)
    assert response.status_code == 422
    assert [one["pointer"] for one in response.json()["errors"]] == [pointer]

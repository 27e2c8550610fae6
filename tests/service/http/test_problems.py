from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from perfmodel.errors import MissingExtraError, StoreError
from service.http.errors import RETRY_AFTER_S

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
PLACE = "A100-SXM4-80GB"
GRAPH_JOB = {"graph": "ab", "mode": "inference", "batch_size": 1}
TENSOR = {"nodes": [{"accelerator": "A10", "count": 2}], "plan": {"tensor": 2}}
NODE = "/placement/nodes/0"
ADAPTS = {
    "gradient_noise_scale": 1.0, "initial_batch_size": 1, "batch_size_bounds": [1, 2],
    "most_accumulation": 2**24,
}  # fmt: skip
MEMBERS = {"type", "title", "status", "detail", "errors", "did_you_mean", "error"}


def check_problem(response: Any, status: int) -> dict[str, Any]:
    """Check what RFC 9457 and this service promise of every error."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert set(problem) == MEMBERS
    assert problem["status"] == status
    assert problem["type"].startswith("urn:perfmodel:problem:")
    assert problem["title"] and problem["detail"]
    assert problem["error"] == problem["detail"]
    for item in problem["errors"]:
        assert set(item) == {"pointer", "detail", "allowed"}
        assert item["pointer"] == "" or item["pointer"].startswith("/")
    return problem


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


def _job(**changes: Any) -> dict[str, Any]:
    return {"job": {**JOB, **changes}, "placement": PLACE}


def _type(name: str) -> dict[str, Any]:
    return {"job": {"job_type": name, "mode": "training", "batch_size": 8}, "placement": PLACE}


def _place(placement: Any) -> dict[str, Any]:
    return {"job": JOB, "placement": placement}


def _nodes(**node: Any) -> dict[str, Any]:
    return _place({"nodes": [node]})


BAD: list[tuple[str, Any, str, list[str]]] = [
    ("no object", [], "", []),
    ("no job", {"placement": PLACE}, "/job", []),
    ("no placement", {"job": JOB}, "/placement", []),
    ("unknown field", {**_job(), "placment": 1}, "/placment", ["placement"]),
    ("control characters", _type("click\u0000s"), "/job/job_type", []),
    ("a hidden direction", _type("a\u202eb"), "/job/job_type", []),
    ("unknown job field", _job(batchsize=1), "/job/batchsize", ["batch_size"]),
    ("batch size 0", _job(batch_size=0), "/job/batch_size", []),
    ("negative batch size", _job(batch_size=-1), "/job/batch_size", []),
    ("fractional batch size", _job(batch_size=1.5), "/job/batch_size", []),
    ("true is no number", _job(batch_size=True), "/job/batch_size", []),
    ("huge batch size", _job(batch_size=10**30), "/job/batch_size", []),
    ("text batch size", _job(batch_size="64"), "/job/batch_size", []),
    ("micro-batches without end", _job(adaptation=ADAPTS), "/job/adaptation/most_accumulation", []),
    ("unknown mode", _job(mode="trainning"), "/job/mode", ["training"]),
    ("unknown precision", _job(precision="fp12"), "/job/precision", ["fp32", "fp16"]),
    ("unknown model", _job(model="timm/resnet5O"), "/job/model", ["timm/resnet50"]),
    ("model of no kind", _job(model=7), "/job/model", []),
    ("two models", _job(graph="ab"), "/job", []),
    ("unknown graph", {"job": GRAPH_JOB, "placement": PLACE}, "/job/graph", []),
    ("unknown accelerator", _place("A100-SXM4-80GG"), "/placement", ["A100-SXM4-80GB"]),
    ("unknown in the long form", _nodes(accelerator="H10O"), f"{NODE}/accelerator", ["H100"]),
    ("no accelerator", _place("8x"), "/placement", []),
    ("none of it", _place("0xA10"), "/placement", []),
    ("empty nodes", _place({"nodes": []}), "/placement/nodes", []),
    ("unknown node field", _nodes(accelerator="A10", cuont=1), f"{NODE}/cuont", ["count"]),
    ("tensor parallelism", _place(TENSOR), "/placement/plan/tensor", []),
    ("unknown network", _place("2xA10@ib-401g"), "/placement", []),
    ("placement of no kind", _place(7), "/placement", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "pointer", "meant"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_what_cannot_be_answered_is_pointed_at(
    client: TestClient, body: Any, pointer: str, meant: list[str]
) -> None:
    for _ in range(2):  # the second time parts of the question are known
        problem = check_problem(client.post("/v1/predict", json=body), 422)
        assert [item["pointer"] for item in problem["errors"]] == [pointer]
        assert set(meant) <= set(problem["did_you_mean"])
        assert all(word in problem["detail"] for word in problem["did_you_mean"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"job": NaN}',
        b'{"job": {"batch_size": Infinity}}',
        b'{"job": 1e999}',
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("route", ["/v1/predict", "/v1/matrix"])
def test_what_is_not_json_is_malformed(client: TestClient, route: str, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    check_problem(client.post(route, content=body, headers=headers), 400)


@pytest.mark.parametrize("body", [[], {}, {"jobs": [], "placements": [PLACE]}, {"jobs": [JOB]}])
def test_a_matrix_needs_jobs_and_placements(client: TestClient, body: Any) -> None:
    check_problem(client.post("/v1/matrix", json=body), 422)


def test_an_unknown_field_of_a_matrix_is_refused(client: TestClient) -> None:
    body = {"jobs": [JOB], "placements": [PLACE], "placement": PLACE}
    problem = check_problem(client.post("/v1/matrix", json=body), 422)
    assert problem["did_you_mean"] == ["placements"]


def test_another_content_type_is_refused(client: TestClient) -> None:
    problem = check_problem(client.post("/v1/predict", data={"job": "x"}), 415)
    assert problem["errors"][0]["allowed"] == ["application/json"]


def test_unknown_routes_and_methods(client: TestClient) -> None:
    check_problem(client.get("/v1/nothing"), 404)
    response = client.get("/v1/predict")
    check_problem(response, 405)
    assert response.headers["allow"] == "POST"
    assert response.json()["detail"] == "/v1/predict does not take GET; it takes POST."
    for method, path, allowed in (
        ("PUT", "/v1/graphs", "GET, POST"),
        ("PUT", "/v1/observations", "GET, POST, PATCH, DELETE"),
        ("PATCH", "/v1/operations/x", "GET, DELETE"),
    ):
        response = client.request(method, path)
        check_problem(response, 405)
        assert response.headers["allow"] == allowed
    limit = check_problem(client.get("/v1/jobs?limit=0"), 422)
    assert "got '0'" in limit["detail"]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "matrix",
            {"jobs": JOB, "placements": [PLACE]},
            "jobs must be a list that is not empty; got",
        ),
        (
            "matrix",
            {"jobs": [JOB], "placements": []},
            "placements must be a list that is not empty; got []",
        ),
        ("rank", {"job": JOB}, "A ranking needs placements"),
        ("drift/campaign", {"policy": "x"}, "A policy must be an object; got 'x'"),
        (
            "adapters/slurm",
            {"job": JOB, "candidates": ["A100"]},
            'such as {"new": "A100-SXM4-80GB"}, must be an object; got [\'A100\']',
        ),
        ("drift/campaign", {"policy": 0}, "A policy must be an object; got 0"),
        ("rank", {"job": JOB, "placements": 5}, "got 5"),
        ("observations", {"observations": "x"}, "got 'x'"),
        ("kernels", {"kernels": {}, "accelerators": ["T4"]}, "got {}"),
        (
            "predict",
            {"job": JOB, "placement": PLACE, "zzz": 1},
            "Known: allow_fallback, deadline_ms,",
        ),
    ],
)
def test_what_was_got_and_what_is_known_is_said(
    client: TestClient, path: str, body: dict[str, Any], said: str
) -> None:
    assert said in check_problem(client.post(f"/v1/{path}", json=body), 422)["detail"]


@pytest.mark.parametrize("stated", [True, False])
def test_a_body_that_is_too_large_is_refused(client: TestClient, stated: bool) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b" " * 10_000

    content: Any = b" " * 300_000 if stated else pieces()
    headers = {"content-type": "application/json"}
    problem = check_problem(client.post("/v1/predict", content=content, headers=headers), 413)
    assert "200000 bytes" in problem["detail"]


def test_a_body_just_below_the_limit_is_read(client: TestClient) -> None:
    body = json.dumps({"job": JOB, "placement": PLACE}).encode().ljust(200_000)
    headers = {"content-type": "application/json"}
    assert client.post("/v1/predict", content=body, headers=headers).status_code == 200


def _fail_with(app: FastAPI, error: Exception) -> None:
    def step(job: Any) -> Any:
        raise error

    app.state.dispatcher.estimator.core.graphs.step = step


def test_a_defect_says_nothing_about_the_inside(app: FastAPI, fresh: TestClient) -> None:
    _fail_with(app, RuntimeError("secret path"))
    response = fresh.post("/v1/predict", json=_job())
    check_problem(response, 500)
    assert "secret" not in response.text


def test_a_missing_library_is_named(app: FastAPI, fresh: TestClient) -> None:
    _fail_with(app, MissingExtraError("Capturing", extra="train"))
    assert (
        "perfmodel[train]" in check_problem(fresh.post("/v1/predict", json=_job()), 501)["detail"]
    )


def test_a_store_that_is_away_asks_to_come_back(app: FastAPI, fresh: TestClient) -> None:
    _fail_with(app, StoreError("The database is away."))
    response = fresh.post("/v1/predict", json=_job())
    check_problem(response, 503)
    assert response.headers["retry-after"] == str(RETRY_AFTER_S)


def test_too_many_waiting_questions_are_turned_away(app: FastAPI, fresh: TestClient) -> None:
    held = threading.Event()
    for _ in range(app.state.settings.max_waiting):
        app.state.dispatcher.threads.submit(held.wait)
    response = fresh.post("/v1/predict", json=_job())
    held.set()
    check_problem(response, 503)
    assert response.headers["retry-after"] == str(RETRY_AFTER_S)
    assert fresh.get("/v2/health/live").status_code == 200


def test_all_mistakes_are_said_at_once(client: TestClient) -> None:
    asked = {"job": {**JOB, "batch_size": 0, "optimizer": "sdg"}, "placement": "A100-SXM4-80GG"}
    problem = check_problem(client.post("/v1/predict", json=asked), 422)
    assert [one["pointer"] for one in problem["errors"]] == [
        "/job/batch_size", "/job/optimizer", "/placement",
    ]  # fmt: skip
    assert "A100-SXM4-80GB" in problem["errors"][2]["detail"]
    assert problem["detail"] == problem["errors"][0]["detail"]


def test_what_everybody_may_list_is_told_by_its_name(client: TestClient) -> None:
    misspelt = check_problem(client.get("/v1/accelerators/A100-SXM5-80GB"), 404)["detail"]
    assert "'A100-SXM4-80GB'" in misspelt
    price = check_problem(client.delete("/v1/prices/A100"), 404)["detail"]
    assert price == "No price of A100-SXM4-40GB was set."


def test_what_a_caller_wrote_is_not_repeated_at_length(client: TestClient) -> None:
    question = {"job": JOB, "accelerator": "A10", "network": "x" * 100_000}
    response = client.post("/v1/curve", json=question)
    assert check_problem(response, 422)["detail"].startswith("Unknown network 'xxx")
    assert len(response.content) < 20_000


def test_a_missing_item_is_told_from_a_missing_route(client: TestClient) -> None:
    item = check_problem(client.get("/v1/jobs/nobody"), 404)["detail"]
    route = check_problem(client.get("/v1/nowhere"), 404)["detail"]
    assert "this key may see" in item and "/docs lists every route" in route

"""Bodies that were made to be remembered, to break a reader, or to be told about the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from perfmodel.errors import DamagedArtifactError, StoreError
from service.http.errors import problem_of
from service.http.redaction import without_own_paths, without_places

JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 8}


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


def nested(depth: int, *, of: str = '{"a":', end: str = "}") -> str:
    return of * depth + "1" + end * depth


@pytest.mark.parametrize("depth", [21, 254, 255, 1_000, 100_000])
@pytest.mark.parametrize("route", ["predict", "matrix", "curve", "rank", "explain", "jobs"])
def test_json_that_is_nested_deeply_is_refused(client: TestClient, route: str, depth: int) -> None:
    for part in ("job", "placement"):
        other = '"placement": "A10"' if part == "job" else '"job": "x"'
        for deep in (nested(depth), nested(depth, of="[", end="]")):
            inner = f"[{deep}]" if route == "matrix" else deep
            name = f"{part}s" if route == "matrix" else part
            content = f'{{"{name}": {inner}, {other}}}'
            headers = {"content-type": "application/json"}
            response = client.post(f"/v1/{route}", content=content, headers=headers)
            assert response.status_code in (400, 413, 422), (part, response.text)


@pytest.mark.parametrize(
    ("said", "pointer"),
    [
        ({"software": {"torch": "2" * 1_001}}, "/job/software/torch"),
        ({"software": {f"library{i}": "1" for i in range(33)}}, "/job/software"),
        ({"software": {"x" * 1_001: "1"}}, f"/job/software/{'x' * 1_001}"),
        ({"model": "timm/" + "x" * 1_000}, "/job/model"),
        ({"model_kwargs": {"a": "x" * 150_000}}, None),
        ({"model_kwargs": {"a": list(range(30_000))}}, None),
    ],
)
def test_texts_that_would_be_kept_are_bounded(
    client: TestClient, said: dict[str, Any], pointer: str | None
) -> None:
    question = {"job": {**JOB, **said}, "placement": "A10"}
    response = client.post("/v1/predict", json=question)
    if pointer is None:
        # Up to a megabyte of arguments is read; what is kept of it in memory is bounded in bytes.
        assert response.status_code in (200, 413, 422)
        return
    assert response.status_code == 422, response.text
    assert response.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("name", ["framework", "attention"])
def test_software_that_is_one_of_a_few_words_is_refused_otherwise(
    client: TestClient, name: str
) -> None:
    question = {"job": {**JOB, "software": {name: "flush"}}, "placement": "A10"}
    response = client.post("/v1/predict", json=question)
    assert response.status_code == 422, response.text
    assert response.json()["errors"][0]["pointer"] == f"/job/software/{name}"
    assert "eager" in response.text or "jax" in response.text


@pytest.mark.parametrize("fraction", [5e-324, 1e-300, 1e-4, 0, -1, 1.5])
def test_shares_of_which_nothing_can_be_said_are_refused(
    client: TestClient, fraction: float
) -> None:
    placement = {"nodes": [{"accelerator": "A10"}], "fraction": fraction}
    response = client.post("/v1/predict", json={"job": JOB, "placement": placement})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/placement/fraction"
    assert "at least 0.001" in response.json()["detail"]


@pytest.mark.parametrize("name", ["power_limit_w", "storage_bytes_per_s"])
def test_amounts_that_would_make_no_number_are_refused(client: TestClient, name: str) -> None:
    placement = {"nodes": [{"accelerator": "A10"}], name: 5e-324}
    response = client.post("/v1/predict", json={"job": JOB, "placement": placement})
    assert response.status_code == 422


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "The database sqlite:////var/lib/perfmodel/a.db cannot be used: unable to open "
            "database file. Check the URL.",
            "The database (sqlite) cannot be used: unable to open database file. Check the URL.",
        ),
        (
            "The database postgresql+psycopg://me:***@db.internal:5432/x cannot be used.",
            "The database (postgresql+psycopg) cannot be used.",
        ),
        (
            "'/srv/models/default/7/joint.json' is damaged.",
            "'default/7/joint.json' is damaged.",
        ),
        (
            "/var/lib/perfmodel/a.db is away; ask GET /v1/models.",
            "a.db is away; ask GET /v1/models.",
        ),
    ],
)
def test_errors_of_the_server_name_no_places(said: str, told: str) -> None:
    for error in (StoreError(said), DamagedArtifactError(said)):
        assert problem_of(error)["detail"] == told
    assert without_places(told) == told


def test_what_a_caller_wrote_is_told_back_and_own_folders_are_not() -> None:
    inside = Path(pytest.__file__)
    kept = "/".join(inside.parts[-3:])
    told = without_own_paths(f"{inside} is missing; POST /v1/graphs, see /job/model and /etc/x")
    assert told == f"{kept} is missing; POST /v1/graphs, see /job/model and /etc/x"


def test_a_database_that_is_away_is_not_named(app: FastAPI, fresh: TestClient) -> None:
    state = app.state.dispatcher.state

    def page(**_: object) -> Any:
        raise StoreError(f"The database {state.database.connections.url} cannot be used.")

    state.jobs.page = page
    response = fresh.get("/v1/jobs")
    assert response.status_code == 503 and response.headers["retry-after"]
    assert response.json()["detail"] == "The database (sqlite) cannot be used."

"""Requests that are answered later, and what becomes of them when their worker dies."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from guarded_service import CREATED, guarded_service
from waiting import PATIENCE_S, until

from perfmodel.errors import StoreError
from perfmodel.store.state.operations import OperationStore
from service.access.keys import new_key
from service.metrics.registry import Metrics
from service.operations.kept_request import KeptRequest
from service.operations.middleware import RespondAsync
from service.operations.runner import Runner
from service.routes.graphs import GRAPH_EXAMPLE
from service.schemas.state_bodies import OperationEntry, OperationsAnswer

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
MATRIX: dict[str, Any] = {"jobs": [JOB], "placements": ["A100-SXM4-80GB", "T4"]}
LATER = {"Prefer": "respond-async"}


def _ended(client: TestClient, place: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get(place).json()
        return found if found["state"] in ("done", "failed") else None

    return until(ended)


@pytest.mark.parametrize(
    ("path", "body", "status"), [("/v1/jobs", {"job": JOB}, 201), ("/v1/matrix", MATRIX, 200)]
)
def test_the_answer_is_fetched_later(
    client: TestClient, path: str, body: dict[str, Any], status: int
) -> None:
    kept = client.post(path, json=body, headers=LATER)
    assert kept.status_code == 202
    assert kept.headers["preference-applied"] == "respond-async"
    OperationEntry.model_validate_json(kept.content, strict=True)
    counted = [line for line in client.get("/metrics").text.splitlines() if 'status="202"' in line]
    assert any(f'route="{path}"' in line for line in counted), counted
    place = kept.headers["location"]
    assert place == f"/v1/operations/{kept.json()['id']}"
    done = _ended(client, place)
    assert (done["state"], done["status"], done["kind"]) == ("done", status, path[4:])
    result = client.get(done["result"])
    assert result.status_code == status
    at_once = client.post(path, json=body)
    if path == "/v1/jobs":
        # What the operation registered is known by now; all else is the same.
        assert at_once.json() == {**result.json(), "created": False}
    else:
        assert at_once.content == result.content


def test_query_and_encoded_body_are_kept_with_a_request(client: TestClient) -> None:
    kept = client.post(
        "/v1/graphs?batch_size=8&mode=training",
        content=gzip.compress(orjson.dumps(GRAPH_EXAMPLE)),
        headers={**LATER, "Content-Type": "application/json", "Content-Encoding": "gzip"},
    )
    done = _ended(client, kept.headers["location"])
    assert (done["state"], done["status"], done["kind"]) == ("done", 201, "graphs"), done
    graph = client.get(done["result"]).json()
    assert (graph["mode"], graph["batch_size"]) == ("training", 8)
    assert client.get(f"/v1/graphs/{graph['graph']}").status_code == 200


def test_what_is_quick_is_answered_at_once_if_the_caller_waits(client: TestClient) -> None:
    answer = client.post("/v1/matrix", json=MATRIX, headers={"Prefer": "respond-async, wait=60"})
    assert answer.status_code == 200
    assert answer.content == client.post("/v1/matrix", json=MATRIX).content


def test_other_preferences_and_routes_are_answered_as_ever(client: TestClient) -> None:
    assert client.post("/v1/jobs", json={"job": JOB}, headers={"Prefer": "wait=5"}).is_success
    question = {"job": JOB, "placement": "T4"}
    assert client.post("/v1/predict", json=question, headers=LATER).status_code == 200
    assert client.get("/v1/operations").json() == {"operations": [], "next_cursor": None}


def test_a_bad_request_fails_with_its_problem(client: TestClient) -> None:
    body = {"job": {**JOB, "batch_size": 0}}
    kept = client.post("/v1/jobs", json=body, headers=LATER)
    failed = _ended(client, kept.headers["location"])
    assert (failed["state"], failed["status"], failed["result"]) == ("failed", 422, None)
    assert failed["problem"] == client.post("/v1/jobs", json=body).json()
    result = client.get(f"{kept.headers['location']}/result")
    assert result.status_code == 422
    assert result.headers["content-type"] == "application/problem+json"


def test_a_body_that_is_too_large_is_refused_at_once(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x" * 150_000
        yield b"x" * 150_000

    for content in (b"x" * 300_000, chunks()):
        answer = client.post("/v1/matrix", content=content, headers=LATER)
        assert answer.status_code == 413
        assert answer.json()["status"] == 413


def test_operations_are_listed_and_forgotten(either: TestClient) -> None:
    for path, body in (("/v1/jobs", {"job": JOB}), ("/v1/matrix", MATRIX)):
        _ended(either, either.post(path, json=body, headers=LATER).headers["location"])
    listed = either.get("/v1/operations")
    OperationsAnswer.model_validate_json(listed.content, strict=True)
    assert [one["kind"] for one in listed.json()["operations"]] == ["matrix", "jobs"]
    only = either.get("/v1/operations?kind=jobs&state=done&limit=1").json()
    assert [one["kind"] for one in only["operations"]] == ["jobs"]
    assert either.get("/v1/operations?state=running").json()["operations"] == []
    assert either.get("/v1/operations?state=lost").status_code == 422
    place = f"/v1/operations/{only['operations'][0]['id']}"
    assert either.delete(place).status_code == 204
    for gone in (either.get(place), either.get(f"{place}/result"), either.delete(place)):
        assert gone.status_code == 404


def _kept(body: dict[str, Any]) -> bytes:
    return KeptRequest(
        method="POST",
        path="/v1/matrix",
        query="",
        headers=(("content-type", "application/json"),),
        body=orjson.dumps(body),
    ).to_bytes()


def test_an_operation_whose_worker_died_is_answered_by_another(either_app: FastAPI) -> None:
    # As a worker leaves it that was killed: claimed, and nobody renews its lease.
    store: OperationStore = either_app.state.dispatcher.state.operations
    started = store.start("matrix", _kept(MATRIX), owner="dead")
    assert started is not None
    assert store.claim("dead", lease_s=0.5) is not None
    with TestClient(either_app) as client:
        done = _ended(client, f"/v1/operations/{started.name}")
        assert (done["state"], done["attempts"]) == ("done", 2)
        assert client.get(done["result"]).content == client.post("/v1/matrix", json=MATRIX).content


def test_what_kills_each_of_its_workers_has_failed(either_app: FastAPI) -> None:
    store: OperationStore = either_app.state.dispatcher.state.operations
    started = store.start("matrix", _kept(MATRIX), owner="dead")
    assert started is not None
    for _ in range(5):
        assert store.claim("dead", lease_s=-1.0) is not None
    with TestClient(either_app) as client:
        failed = _ended(client, f"/v1/operations/{started.name}")
        assert (failed["state"], failed["attempts"]) == ("failed", 5)
        assert failed["problem"]["type"] == "urn:perfmodel:problem:operation-lost"
        assert client.get(f"/v1/operations/{started.name}/result").status_code == 500


def test_a_service_that_ends_hands_its_work_on(app: FastAPI, monkeypatch: Any) -> None:
    store: OperationStore = app.state.dispatcher.state.operations
    begun = threading.Event()

    async def endless(*args: Any) -> None:
        begun.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(app.state.dispatcher, "matrix", endless)
    with TestClient(app) as client:
        name = client.post("/v1/matrix", json=MATRIX, headers=LATER).json()["id"]
        assert begun.wait(PATIENCE_S)
        assert client.get(f"/v1/operations/{name}").json()["state"] == "running"
        pending = client.get(f"/v1/operations/{name}/result")
        assert (pending.status_code, pending.headers["retry-after"]) == (202, "1")
    left = store.find(name)
    app.state.dispatcher.state.database.close()
    assert left is not None
    assert (left.state.value, left.attempts) == ("waiting", 0)


def test_what_is_forgotten_is_not_worked_on(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless(*args: Any) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    monkeypatch.setattr(client.app.state.dispatcher, "matrix", endless)  # type: ignore[attr-defined]
    place = client.post("/v1/matrix", json=MATRIX, headers=LATER).headers["location"]
    assert begun.wait(PATIENCE_S)
    assert client.delete(place).status_code == 204
    assert ended.wait(PATIENCE_S)
    assert client.get(place).status_code == client.delete(place).status_code == 404


def test_what_there_is_no_room_for_is_tried_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = client.app.state.dispatcher  # type: ignore[attr-defined]
    matrix, refusals = dispatcher.matrix, iter([StoreError("away")])

    async def sometimes(*args: Any) -> Any:
        for refusal in refusals:
            raise refusal
        return await matrix(*args)

    monkeypatch.setattr(dispatcher, "matrix", sometimes)
    kept = client.post("/v1/matrix", json=MATRIX, headers=LATER)
    done = _ended(client, kept.headers["location"])
    assert (done["state"], done["attempts"]) == ("done", 2)


def test_the_queue_is_shown(client: TestClient) -> None:
    _ended(client, client.post("/v1/matrix", json=MATRIX, headers=LATER).headers["location"])
    line = 'perfmodel_queue_depth{queue="operations"}'
    until(lambda: f"{line} 0.0" in client.get("/metrics").text)


def test_callers_remove_what_they_asked_for_and_administrators_everything(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for guarded in guarded_service(tmp_path_factory):
        client = guarded.client
        other, key = new_key("other", ["predict"], created_at=CREATED)
        client.app.state.keys.add(key)  # type: ignore[attr-defined]
        headers = {**guarded.bearer("predict"), **LATER}
        kept = [client.post("/v1/jobs", json={"job": JOB}, headers=headers) for _ in range(2)]
        places = [answer.headers["location"] for answer in kept]
        assert client.get(places[0], headers=guarded.bearer("observe")).status_code == 403
        bearer = {"Authorization": f"Bearer {other}"}
        # Of another key: neither shown nor listed nor removed.
        for path in (places[0], f"{places[0]}/result"):
            assert client.get(path, headers=bearer).status_code == 404
        assert client.delete(places[0], headers=bearer).status_code == 404
        assert client.get("/v1/operations", headers=bearer).json()["operations"] == []
        for scope in ("predict", "admin"):
            listed = client.get("/v1/operations", headers=guarded.bearer(scope)).json()
            assert len(listed["operations"]) == 2
        assert client.delete(places[0], headers=guarded.bearer("predict")).status_code == 204
        assert client.delete(places[1], headers=guarded.bearer("admin")).status_code == 204


class _NothingToDo:
    """A store without operations."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **facts: None if name == "claim" else 0


def test_it_ends_whenever_it_is_told_to() -> None:
    # A cancellation may meet the event that the runner waits for: at any turn of the loop.
    async def ends_after(turns: int) -> None:
        runner = Runner(_NothingToDo(), Metrics(), poll_s=60.0, lease_s=600.0)  # type: ignore[arg-type]
        runner.start()
        await asyncio.sleep(0.05)
        runner._wake.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.wait_for(runner.stop(), PATIENCE_S)

    for turns in range(8):
        asyncio.run(ends_after(turns))


def test_a_request_whose_sender_leaves_is_not_kept() -> None:
    messages = iter(
        [
            {"type": "http.request", "body": b'{"jobs": [', "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(*given: Any) -> None:
        raise AssertionError("It was passed on.")

    # A runner that keeps nothing: to submit to it would fail.
    later = RespondAsync(app, runner=SimpleNamespace(inner=None))  # type: ignore[arg-type]
    headers = [(b"prefer", b"respond-async")]
    scope = {"type": "http", "method": "POST", "path": "/v1/matrix", "headers": headers}
    asyncio.run(later(scope, receive, send))
    assert sent == []

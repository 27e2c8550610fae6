"""What the threads have no room for is refused before a route is found for it, and only that."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held_service import PATIENCE_S, HeldService, held_service

JOB: dict[str, Any] = {"model": "zoo/old", "mode": "training", "batch_size": 8}
QUESTIONS: dict[str, dict[str, Any]] = {
    "matrix": {"jobs": [JOB], "placements": ["A10"]},
    "curve": {"job": JOB, "accelerator": "A10", "most": 4},
    "rank": {"job": JOB, "placements": ["A10"]},
    "explain": {"job": JOB, "placement": "A10"},
}
MOST = 3


@pytest.fixture
def service(tmp_path: Path) -> Iterator[HeldService]:
    with held_service(tmp_path, max_waiting=MOST) as service:
        service.ask("predict", job=JOB, placement="A10")
        service.finish()
        yield service


@pytest.fixture
def full(service: HeldService) -> Iterator[HeldService]:
    """Yield a service whose threads have no room."""
    held = threading.Event()
    for _ in range(MOST):
        service.dispatcher.threads.submit(held.wait, PATIENCE_S)
    yield service
    held.set()
    service.finish()


@pytest.mark.parametrize("route", QUESTIONS)
def test_one_too_many_is_refused_without_its_route(
    full: HeldService, routed: list[bytes], route: str
) -> None:
    response = full.client.post(f"/v1/{route}", json=QUESTIONS[route])
    assert response.status_code == 503
    assert response.headers["retry-after"]
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["title"] == "Overloaded"
    assert not routed
    refused = f'perfmodel_requests_total{{method="POST",route="/v1/{route}",status="503"}}'
    assert full.metrics()[refused] == 1


def test_the_route_would_say_the_same(full: HeldService, monkeypatch: pytest.MonkeyPatch) -> None:
    early = full.client.post("/v1/matrix", json=QUESTIONS["matrix"])
    monkeypatch.setattr(full.dispatcher.threads, "refusal", lambda caller: None)
    late = full.client.post("/v1/matrix", json=QUESTIONS["matrix"])
    assert late.status_code == early.status_code == 503
    assert late.json() == early.json()
    assert {**late.headers, "x-request-id": ""} == {**early.headers, "x-request-id": ""}


@pytest.mark.parametrize("stated", ["body", "header"])
def test_whoever_states_a_deadline_is_answered_by_the_analytical_model(
    full: HeldService, routed: list[bytes], stated: str
) -> None:
    body = dict(QUESTIONS["matrix"])
    headers = {}
    if stated == "body":
        body["deadline_ms"] = 50
    else:
        headers["X-Deadline-Ms"] = "50"
    response = full.client.post("/v1/matrix", json=body, headers=headers)
    assert response.status_code == 200, response.text
    assert response.json()["status"] == [["ok"]]
    assert len(routed) == 1


def test_what_is_asked_for_later_is_taken_in(full: HeldService) -> None:
    response = full.client.post(
        "/v1/matrix", json=QUESTIONS["matrix"], headers={"Prefer": "respond-async"}
    )
    assert response.status_code == 202


def test_known_predictions_and_other_routes_go_on(full: HeldService) -> None:
    full.ask("predict", job=JOB, placement="4xA10")
    assert full.client.get("/v1/accelerators").status_code == 200


def test_with_room_every_question_is_answered(service: HeldService) -> None:
    for route, question in QUESTIONS.items():
        assert service.client.post(f"/v1/{route}", json=question).status_code == 200

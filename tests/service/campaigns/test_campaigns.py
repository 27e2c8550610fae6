"""Campaigns over HTTP: entered, watched while a worker measures, cancelled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from campaign_world import REFERENCE, Bench, CampaignWorld
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator
from migrated import migrated_sqlite

from perfmodel.profilers.worker import Failure
from service.campaigns import campaign_events
from service.schemas.state_bodies import (
    CampaignEntered,
    CampaignEntry,
    CampaignsAnswer,
    CampaignShown,
    CampaignTasksAnswer,
)

BODY: dict[str, Any] = {
    "jobs": [{"model": "zoo/mlp", "batch_size": size} for size in (1, 2, 3)],
    "accelerators": ["gpu"],
    "policy": {"reference": {"model": REFERENCE.model, "batch_size": REFERENCE.batch_size}},
    "title": "three",
}


@pytest.fixture
def world(client: TestClient, tmp_path: Path) -> Iterator[CampaignWorld]:
    """Return workers of the database that the service has."""
    made = CampaignWorld(url=migrated_sqlite(tmp_path), folder=tmp_path)
    yield made
    made.close()


def _events(client: TestClient, name: str, seconds: float = 0.1) -> list[tuple[str, Any]]:
    response = client.get(f"/v1/campaigns/{name}/events?seconds={seconds}")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in response.text.split("\n\n") if block]
    pairs = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    described = client.get("/openapi.json").json()["paths"]["/v1/campaigns/{name}/events"]["get"]
    each = described["responses"]["200"]["content"]["text/event-stream"]["schema"]
    for pair in pairs:
        Draft202012Validator(each).validate(pair)
    return [(pair["event"], json.loads(pair["data"])) for pair in pairs]


def test_a_campaign_is_entered_measured_and_read(client: TestClient, world: CampaignWorld) -> None:
    made = client.post("/v1/campaigns", json=BODY)
    assert made.status_code == 201
    CampaignEntered.model_validate_json(made.content, strict=True)
    name = made.json()["id"]
    assert (made.json()["stage"], made.json()["total"]) == ("waiting", 3)
    again = client.post("/v1/campaigns", json=BODY)
    assert (again.status_code, again.json()["id"], again.json()["created"]) == (200, name, False)

    world.worker(Bench(failures={2: Failure(kind="crash", reason="ended by SIGSEGV")})).run()
    shown = client.get(f"/v1/campaigns/{name}")
    CampaignShown.model_validate_json(shown.content, strict=True)
    assert (shown.json()["stage"], shown.json()["done"], shown.json()["failed"]) == ("ended", 2, 1)
    assert [one["drift"] for one in shown.json()["references"]] == [None, 0.0]
    listed = client.get("/v1/campaigns")
    CampaignsAnswer.model_validate_json(listed.content, strict=True)
    assert [one["id"] for one in listed.json()["campaigns"]] == [name]
    results = client.get(f"/v1/campaigns/{name}/results")
    CampaignTasksAnswer.model_validate_json(results.content, strict=True)
    states = {one["job"]["batch_size"]: one["state"] for one in results.json()["tasks"]}
    assert states == {1: "done", 2: "failed", 3: "done"}
    failed = client.get(f"/v1/campaigns/{name}/results?state=failed").json()["tasks"]
    assert [one["reason"] for one in failed] == ["crash: ended by SIGSEGV"]


def test_events_say_how_things_stand_and_then_what_is_new(
    client: TestClient, world: CampaignWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign_events, "POLL_S", 0.01)
    name = client.post("/v1/campaigns", json=BODY).json()["id"]
    [(kind, progress)] = _events(client, name)
    assert (kind, progress["waiting"]) == ("progress", 3)
    world.worker(Bench(), most_tasks=1).run()
    kinds = [kind for kind, _ in _events(client, name)]
    assert kinds == ["task", "progress"]
    world.worker(Bench()).run()
    told = _events(client, name, seconds=60)
    assert [kind for kind, _ in told] == ["task", "task", "task", "progress", "end"]
    assert told[-1][1] == {"stage": "ended"}
    assert sorted(content["outcome"]["step_time_s"] for kind, content in told[:3]) == [
        0.001, 0.002, 0.003,
    ]  # fmt: skip


def test_a_cancelled_campaign_begins_nothing_more(client: TestClient, world: CampaignWorld) -> None:
    name = client.post("/v1/campaigns", json=BODY).json()["id"]
    cancelled = client.delete(f"/v1/campaigns/{name}")
    CampaignEntry.model_validate_json(cancelled.content, strict=True)
    assert (cancelled.status_code, cancelled.json()["cancelled"]) == (200, 3)
    assert world.worker(Bench()).run().ended == 0
    assert _events(client, name)[-1] == ("end", {"stage": "cancelled"})


def test_what_has_ended_is_not_cancelled_any_more(client: TestClient, world: CampaignWorld) -> None:
    name = client.post("/v1/campaigns", json=BODY).json()["id"]
    world.worker(Bench()).run()
    assert client.delete(f"/v1/campaigns/{name}").json()["stage"] == "ended"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"jobs": []}, "/jobs"),
        ({"jobs": [{"model": "zoo/mlp", "batch_size": 0}]}, "/jobs/0/batch_size"),
        ({"jobs": [{"graph": "ab"}]}, "/jobs/0"),
        ({"jobs": [{"model": "zoo/mlp"}, {"model": "zoo/nosuch"}]}, "/jobs/1/model"),
        ({"jobs": [{"model": "model.onnx"}]}, "/jobs/0/model"),
        ({"accelerators": [3]}, "/accelerators/0"),
        ({"accelerators": ["any", "H1000"]}, "/accelerators/1"),
        ({"accelerators": ["local"]}, "/accelerators/0"),
        ({"policy": {"order": "best"}}, "/policy/order"),
        ({"policy": {"budget_s": -1}}, "/policy/budget_s"),
        ({"policy": {"hurry": True}}, "/policy/hurry"),
        ({"title": "x" * 201}, "/title"),
        ({"tasks": []}, "/tasks"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(
    client: TestClient, change: dict[str, Any], pointer: str
) -> None:
    refused = client.post("/v1/campaigns", json={**BODY, **change})
    assert refused.status_code == 422, refused.text
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


@pytest.mark.parametrize("path", ["nosuch", "nosuch/results", "nosuch/events", "%00"])
def test_what_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    assert client.get(f"/v1/campaigns/{path}").status_code == 404

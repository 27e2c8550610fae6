"""Observed steps of other jobs count for a job, stored or sent with the question."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from perfmodel.store.state import observation_feed
from perfmodel.store.state.observation_feed import EVERY_S
from service.state.state import State

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
OTHER: dict[str, Any] = {**JOB, "model": "timm/resnet18", "batch_size": 32}
PLACES = ("T4", "4xT4", "2x(4xT4)@eth-25g")
ASKED = "8xT4"
ELSEWHERE = "8xA100-SXM4-80GB"


@pytest.fixture
def state(app: FastAPI) -> State:
    state: State = app.state.dispatcher.state
    return state


def _step_s(client: TestClient, job: dict[str, Any], placement: str, **more: Any) -> float:
    answer = client.post("/v1/predict", json={"job": job, "placement": placement, **more})
    assert answer.status_code == 200, answer.text
    seconds: float = answer.json()["step_time_s"]
    return seconds


def _observed(client: TestClient, factor: float = 2.0) -> list[dict[str, Any]]:
    """Return steps of the other job that took longer than predicted."""
    return [
        {
            "job": OTHER, "placement": place, "batch_size": OTHER["batch_size"],
            "step_time_s": factor * _step_s(client, OTHER, place),
        }
        for place in PLACES
    ]  # fmt: skip


def _store(client: TestClient, seen: list[dict[str, Any]]) -> None:
    sent = [{**one, "key": f"{i}"} for i, one in enumerate(seen)]
    answer = client.post("/v1/observations", json={"observations": sent})
    taken = answer.json()
    assert taken["accepted"] + taken["known"] == len(seen), answer.text


def test_what_is_sent_counts_and_what_one_reporter_stored_hardly(client: TestClient) -> None:
    before, elsewhere = _step_s(client, JOB, ASKED), _step_s(client, JOB, ELSEWHERE)
    seen = _observed(client)
    sent = _step_s(client, JOB, ASKED, observations=seen)
    assert sent > 1.2 * before
    _store(client, seen)
    assert before < _step_s(client, JOB, ASKED) <= 1.05 * before * (1 + 1e-9)
    assert _step_s(client, JOB, ELSEWHERE) == elsewhere
    # Sent and stored at once, they count once.
    again = _step_s(client, JOB, ASKED, observations=seen)
    assert again == pytest.approx(sent, rel=0.05)


def test_a_matrix_a_curve_and_a_ranking_agree_with_a_prediction(client: TestClient) -> None:
    _store(client, _observed(client))
    single = _step_s(client, JOB, ASKED)
    body = {"jobs": [JOB, OTHER], "placements": [ASKED, ELSEWHERE]}
    matrix = client.post("/v1/matrix", json=body).json()
    assert matrix["step_time_s"][0][0] == pytest.approx(single)
    asked = {"job": JOB, "accelerator": "T4", "counts": [8]}
    curve = client.post("/v1/curve", json=asked).json()
    assert curve["step_time_s"][0] == pytest.approx(single)
    ranking = client.post("/v1/rank", json={"job": JOB, "placements": [ASKED]}).json()
    assert ranking["best"][0]["estimate"]["step_time_s"] == pytest.approx(single)


def test_a_reference_stands_for_the_other_job(client: TestClient) -> None:
    seen = _observed(client)
    ref = client.post("/v1/jobs", json={"job": OTHER}).json()["ref"]
    named = [{**one, "job": ref} for one in seen]
    sent = [_step_s(client, JOB, ASKED, observations=each) for each in (seen, named)]
    assert sent[0] == sent[1]
    bad = {"job": JOB, "placement": ASKED, "observations": [{**seen[0], "job": "0" * 32}]}
    answer = client.post("/v1/predict", json=bad)
    assert answer.json()["errors"][0]["pointer"] == "/observations/0/job", answer.text


def test_a_job_is_not_held_up_by_what_is_known_of_others(
    client: TestClient, state: State, app: FastAPI
) -> None:
    _store(client, _observed(client))
    asked = {"job": JOB, "placement": ASKED}
    first = client.post("/v1/predict", json=asked).json()
    answerer = app.state.dispatcher.models.serving
    again = answerer.from_memory(asked)
    assert again is not None and again.step_time_s == first["step_time_s"]


def test_what_is_added_is_seen_within_two_seconds(
    client: TestClient, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(observation_feed, "time", SimpleNamespace(monotonic=lambda: now[0]))
    before = _step_s(client, JOB, ASKED)
    assert state.feed.known(None) == ()
    seen = _observed(client)
    _store(client, seen[:1])
    assert len(state.feed.of(None)) == 1
    _store(client, seen)
    # Of many a second the first is seen at once, the others together.
    assert EVERY_S < 2
    now[0] += 0.99 * EVERY_S
    assert len(state.feed.known(None) or ()) == 1
    now[0] += 0.02 * EVERY_S
    assert state.feed.known(None) is None
    assert len(state.feed.of(None)) == len(PLACES)
    assert _step_s(client, JOB, ASKED) != before


def test_job_types_learn_of_those_that_are_sent(client: TestClient) -> None:
    jobs = [{"job_type": name, "mode": "training", "batch_size": 32} for name in ("one", "two")]
    seen = [
        {"job": jobs[0], "placement": place, "batch_size": 32, "step_time_s": seconds}
        for place, seconds in (("T4", 0.2), ("4xT4", 0.8), ("8xT4", 1.6))
    ]
    own = {"placement": "T4", "batch_size": 32, "step_time_s": 0.3}
    alone = _step_s(client, jobs[1], "8xT4", observations=[own])
    beside = _step_s(client, jobs[1], "8xT4", observations=[own, *seen])
    assert beside > 1.3 * alone
    _store(client, seen)
    assert _step_s(client, jobs[1], "8xT4", observations=[own]) == alone

"""What ran out of memory is kept and taken back as steps are; it tells what fits, and no time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import make_app
from jumping_clock import jump
from made_up_products import product_step
from two_hosts import two_hosts
from waiting import until

from perfmodel.estimator import CapturedStep
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.graph.job import Job
from service.schemas.state_bodies import ObservationsAnswer

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
OTHER: dict[str, Any] = {**JOB, "model": "timm/resnet18"}
TYPE: dict[str, Any] = {"job_type": "click-rates", "mode": "training", "batch_size": 64}
PLACES = ["T4", "4xT4", "A100-SXM4-80GB"]
BOTH = pytest.mark.parametrize("job", [JOB, TYPE], ids=["model", "type"])


def _ran_out(job: dict[str, Any], key: str = "killed", **more: Any) -> dict[str, Any]:
    return {"job": job, "placement": "T4", "out_of_memory": True, "key": key, **more}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(make_app(tmp_path)) as found:
        yield found


def _ran(client: TestClient, job: dict[str, Any], key: str, **more: Any) -> dict[str, Any]:
    """Return a step that takes as long as predicted."""
    asked = {"job": job, "placement": "T4", **more}
    took_s = _post(client, "/v1/predict", asked)["step_time_s"]
    return {**asked, "step_time_s": took_s, "key": key}


def _post(client: TestClient, path: str, body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _observe(client: TestClient, *sent: dict[str, Any]) -> None:
    assert _post(client, "/v1/observations", list(sent))["accepted"] == len(sent)


def _answers(client: TestClient, job: dict[str, Any]) -> list[bytes]:
    """Return all that is said of a job, and of one that is not observed."""
    asked: list[tuple[str, Any]] = [
        ("/v1/predict", {"job": one, "placement": place})
        for one in (job, {**job, "batch_size": 32}, {**job, "batch_size": 128}, OTHER)
        for place in PLACES
    ]
    asked += [
        ("/v1/matrix", {"jobs": [job, OTHER], "placements": PLACES}),
        ("/v1/curve", {"job": job, "accelerator": "T4", "counts": [1, 2, 4]}),
        ("/v1/rank", {"job": job, "placements": PLACES}),
    ]
    return [client.post(path, json=body).content for path, body in asked]


def _times(value: Any) -> Any:
    """Return an answer without what it says of memory."""
    if isinstance(value, list):
        return [_times(one) for one in value]
    if not isinstance(value, dict):
        return value
    memory = ("memory", "fits", "peak_bytes", "warnings")
    return {name: _times(one) for name, one in value.items() if name not in memory}


@BOTH
def test_it_refuses_the_cell_and_moves_no_time(client: TestClient, job: dict[str, Any]) -> None:
    before = _answers(client, job)
    _observe(client, _ran_out(job))
    after = _answers(client, job)
    assert after != before
    # The rank is apart: what does not fit is left out of it.
    for then, since in zip(before[:-1], after[:-1], strict=True):
        assert _times(json.loads(since)) == _times(json.loads(then))
    found = json.loads(after[0])
    assert (found["memory"]["fits"], found["memory"]["oom_probability"]) == (False, 1.0)
    assert any("observed to run out of memory" in text for text in found["warnings"])
    matrix, curve, rank = map(json.loads, after[-3:])
    assert [matrix["fits"][0][0], *curve["fits"]] == [False] * 4
    assert 0 in [one["placement"] for one in rank["left_out"]]
    # Of the other job nothing is said, by whatever route.
    assert [after[at] for at in (9, 10, 11)] == [before[at] for at in (9, 10, 11)]
    assert matrix["fits"][1] == json.loads(before[-3])["fits"][1]


@BOTH
def test_it_is_listed_and_sent_again(client: TestClient, job: dict[str, Any]) -> None:
    _observe(client, _ran_out(job))
    assert _post(client, "/v1/observations", [_ran_out(job)])["known"] == 1
    # The key stands for what ran out, whatever is sent under it.
    ran = {"job": job, "placement": "T4", "step_time_s": 0.2, "key": "killed"}
    assert _post(client, "/v1/observations", [ran])["refused"] == 1
    answer = client.get("/v1/observations")
    ObservationsAnswer.model_validate_json(answer.content, strict=True)
    (seen,) = answer.json()["observations"]
    assert (seen["step_time_s"], seen["sync_time_s"], seen["out_of_memory"]) == (None, None, True)
    # Without a key its content is one, beside that of a step.
    nameless = {name: value for name, value in _ran_out(job).items() if name != "key"}
    _observe(client, nameless)
    assert _post(client, "/v1/observations", [nameless])["known"] == 1


@BOTH
@pytest.mark.parametrize("query", ["key=killed", "job={ref}", "reporter=guest", "after={at}"])
def test_answers_are_as_before_once_it_is_removed(
    client: TestClient, job: dict[str, Any], query: str
) -> None:
    before = _answers(client, job)
    _observe(client, _ran_out(job))
    seen = client.get("/v1/observations").json()["observations"][0]
    assert _answers(client, job) != before
    at = seen["received_at"].replace("+00:00", "Z")
    found = client.delete(f"/v1/observations?{query.format(ref=seen['job'], at=at)}")
    assert found.json() == {"removed": 1}
    assert _answers(client, job) == before


@BOTH
def test_it_is_left_out_and_taken_in_again(client: TestClient, job: dict[str, Any]) -> None:
    before = _answers(client, job)
    _observe(client, _ran_out(job))
    observed = _answers(client, job)
    for state, expected in (("excluded", before), ("accepted", observed)):
        changed = client.patch("/v1/observations?key=killed", json={"state": state})
        assert changed.json() == {"changed": 1}
        assert _answers(client, job) == expected


@BOTH
def test_it_counts_as_long_as_it_said(
    client: TestClient, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _answers(client, job)
    _observe(client, _ran_out(job, expires_in_s=7_200))
    assert _answers(client, job) != before
    jump(monkeypatch, 7_201.0)
    until(lambda: _answers(client, job) == before)


@BOTH
def test_the_order_does_not_matter(client: TestClient, job: dict[str, Any]) -> None:
    sent = [
        _ran_out(job, "a"),
        _ran_out({**job, "batch_size": 48}, "b"),
        _ran(client, {**job, "batch_size": 16}, "c"),
        _ran(client, {**job, "batch_size": 32}, "d", placement="2xT4"),
    ]
    drawn, found = random.Random(3), []
    for _ in range(3):
        drawn.shuffle(sent)
        for one in sent:
            _observe(client, one)
        found.append(_answers(client, job))
        assert client.delete("/v1/observations?reporter=guest").json() == {"removed": 4}
    assert found[1:] == found[:1] * 2


@BOTH
def test_what_ran_wins(client: TestClient, job: dict[str, Any]) -> None:
    _observe(client, _ran(client, job, "ran"))
    before = _answers(client, job)
    _observe(client, _ran_out(job))
    assert _answers(client, job) == before
    # Nor is the step crowded out, however often the cell ran out since.
    _observe(client, *(_ran_out(job, str(time)) for time in range(300)))
    assert _answers(client, job) == before


def test_what_cannot_have_run_out_refuses_nothing(client: TestClient) -> None:
    before = _answers(client, JOB)
    small = _ran_out(JOB, placement="A100-SXM4-80GB", batch_size=1)
    item = _post(client, "/v1/observations", [small])["observations"][0]
    assert item["status"] == "quarantined"
    assert "less than a 5th. Was the accelerator free" in item["reason"]
    assert _answers(client, JOB) == before
    # Whoever knows better takes it in; it then says what its own cell does, and nothing else.
    path = "/v1/observations?key=killed"
    assert client.patch(path, json={"state": "accepted"}).json() == {"changed": 1}
    asked = {"job": {**JOB, "batch_size": 1}, "placement": "A100-SXM4-80GB"}
    assert _post(client, "/v1/predict", asked)["memory"]["fits"] is False
    said = [one["memory"] for one in map(json.loads, _answers(client, JOB)) if "memory" in one]
    assert said == [one["memory"] for one in map(json.loads, before) if "memory" in one]


def test_what_cannot_have_fitted_makes_nothing_fit(tmp_path: Path) -> None:
    def wide(job: Job) -> CapturedStep:
        return product_step(job.batch_size, 2**14, 2**14)

    large = {**JOB, "batch_size": 2**23}
    with TestClient(make_app(tmp_path, capture=wide)) as client:
        before = _answers(client, large)
        ran = _ran(client, large, "ran")
        item = _post(client, "/v1/observations", [ran])["observations"][0]
        assert item["status"] == "quarantined"
        assert "more than 5 times as much" in item["reason"]
        assert _answers(client, large) == before


@pytest.mark.parametrize("placement", ["8xT4 tp=8", "T4 power=1"])
def test_where_no_answer_can_be_given_nothing_ran_out(client: TestClient, placement: str) -> None:
    stored = client.post("/v1/observations", json=[_ran_out(JOB, placement=placement)])
    told = {"placement": placement, "batch_size": 64, "out_of_memory": True}
    asked = client.post("/v1/predict", json={"job": JOB, "placement": "T4", "observations": [told]})
    for refused in (stored, asked):
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"].startswith("/observations/0/placement/p")


def test_a_report_takes_no_prediction(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnalyticalModel, "predict", lambda *_: pytest.fail("it was predicted"))
    _observe(client, _ran_out(JOB), _ran_out(TYPE))


def test_what_is_told_with_a_question_joins_what_is_stored(client: TestClient) -> None:
    told = {"placement": "T4", "batch_size": 64, "out_of_memory": True}
    asked = {"job": JOB, "placement": "T4"}
    plain = client.post("/v1/predict", json=asked).content
    alone = client.post("/v1/predict", json={**asked, "observations": [told]}).content
    _observe(client, _ran_out(JOB))
    stored = client.post("/v1/predict", json=asked).content
    both = client.post("/v1/predict", json={**asked, "observations": [told]}).content
    assert plain != alone == stored == both


@BOTH
@pytest.mark.parametrize("more", [{"step_time_s": 0.1}, {"sync_time_s": 0.1}])
def test_it_has_no_time(client: TestClient, job: dict[str, Any], more: dict[str, float]) -> None:
    stored = client.post("/v1/observations", json=[_ran_out(job, **more)])
    told = {"placement": "T4", "batch_size": 64, "out_of_memory": True, **more}
    asked = client.post("/v1/predict", json={"job": job, "placement": "T4", "observations": [told]})
    for refused in (stored, asked):
        assert refused.status_code == 422
        assert "has no time" in refused.json()["detail"]
    neither = {"job": job, "placement": "T4", "out_of_memory": False}
    refused = client.post("/v1/observations", json=[neither])
    assert (refused.status_code, "out_of_memory" in refused.json()["detail"]) == (422, True)


def test_nothing_is_held_against_a_prediction(client: TestClient) -> None:
    _observe(client, _ran_out(JOB))
    report = client.get("/v1/accuracy").json()
    assert (report["points"], report["left_out"]) == ([], 0)
    drift = client.get("/v1/drift").json()
    assert {name: drift[name] for name in ("compared", "left_out", "waiting")} == {
        "compared": 0, "left_out": 0, "waiting": 0,
    }  # fmt: skip


def test_steps_of_others_move_a_job_that_only_ran_out(client: TestClient) -> None:
    _observe(client, _ran_out(JOB))
    before = json.loads(_answers(client, JOB)[0])
    predicted_s = _post(client, "/v1/predict", {"job": OTHER, "placement": "T4"})["step_time_s"]
    slow = {"job": OTHER, "placement": "T4", "step_time_s": 3 * predicted_s, "key": "slow"}
    _observe(client, slow)
    after = json.loads(_answers(client, JOB)[0])
    assert before["step_time_s"] < after["step_time_s"] <= 1.0501 * before["step_time_s"]
    assert after["memory"] == before["memory"]
    client.delete("/v1/observations?key=killed")
    apart = json.loads(_answers(client, JOB)[0])
    assert apart["step_time_s"] == after["step_time_s"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@BOTH
def test_another_worker_follows(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, job: dict[str, Any]
) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    if kind == "postgresql":
        url = request.getfixturevalue("postgresql").migrated_database()
    with two_hosts(url, tmp_path) as (one, other):
        before = _answers(one, job)
        assert _answers(other, job) == before
        _observe(one, _ran_out(job))
        observed = _answers(one, job)
        assert observed != before
        until(lambda: _answers(other, job) == observed)
        other.delete("/v1/observations?key=killed")
        assert _answers(other, job) == before
        until(lambda: _answers(one, job) == before)

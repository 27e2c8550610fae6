from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from perfmodel.requests import parse_job, parse_request
from service.answering import answerer


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


def test_an_answer_is_what_the_estimator_says(client: TestClient, question: dict[str, Any]) -> None:
    response = client.post("/v1/predict", json=question)
    assert response.status_code == 200
    job, placement = parse_request(question)
    app: Any = client.app
    assert response.json() == app.state.dispatcher.estimator.estimate(job, placement).to_dict()


def test_unpriced_operators_are_in_the_answer(client: TestClient, question: dict[str, Any]) -> None:
    answer = client.post("/v1/predict", json=question).json()
    assert answer["unpriced_operators"] == {"mylib::fused": 1}
    assert any("no cost formula" in text for text in answer["warnings"])


def test_the_same_question_gets_the_same_bytes(
    client: TestClient, question: dict[str, Any]
) -> None:
    reordered = {"placement": question["placement"], "job": dict(reversed(question["job"].items()))}
    answers = {client.post("/v1/predict", json=q).content for q in [question, reordered] * 5}
    assert len(answers) == 1


def test_a_job_that_was_asked_about_is_read_no_more(
    client: TestClient, question: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, places = question["job"], ["A10", question["placement"]]
    alone = client.post("/v1/predict", json=question).json()
    read: list[Any] = []

    def noting(value: Any, **others: Any) -> Any:
        read.append(value)
        return parse_job(value, **others)

    monkeypatch.setattr(answerer, "parse_job", noting)
    other = {**job, "batch_size": 63}
    table = client.post("/v1/matrix", json={"jobs": [job, other], "placements": places}).json()
    assert other in read and job not in read
    rate = alone["throughput"]["samples_per_second"]
    assert table["samples_per_second"][0][1] == pytest.approx(rate, rel=1e-12)


def test_both_forms_of_a_placement_get_the_same_bytes(
    client: TestClient, question: dict[str, Any]
) -> None:
    long = {**question, "placement": {"nodes": [{"accelerator": "A100-SXM4-80GB", "count": 8}]}}
    short_bytes = client.post("/v1/predict", json=question).content
    assert client.post("/v1/predict", json=long).content == short_bytes


def test_more_accelerators_are_never_slower(client: TestClient, question: dict[str, Any]) -> None:
    rates = [
        client.post("/v1/predict", json={**question, "placement": f"{count}xA10"}).json()[
            "throughput"
        ]["samples_per_second"]
        for count in (1, 2, 3, 8, 64)
    ]
    assert rates == sorted(rates)
    assert rates[-1] == pytest.approx(64 * rates[0])


def test_an_alias_answers_as_its_name(client: TestClient, question: dict[str, Any]) -> None:
    named, aliased = (
        client.post("/v1/predict", json={**question, "placement": placement}).json()
        for placement in ("A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB")
    )
    assert named == aliased


def test_a_matrix_equals_its_single_answers(client: TestClient) -> None:
    jobs = [
        {"model": model, "mode": mode, "batch_size": size}
        for model in ("timm/resnet18", "timm/resnet50")
        for mode in ("training", "inference")
        for size in (1, 32)
    ]
    placements = ["A10", "4xA100-SXM4-80GB", "V100-SXM2-16GB+2xT4"]
    matrix = client.post("/v1/matrix", json={"jobs": jobs, "placements": placements}).json()
    assert (matrix["jobs"], matrix["placements"]) == (8, 3)
    for row, job in enumerate(jobs):
        for column, placement in enumerate(placements):
            one = client.post("/v1/predict", json={"job": job, "placement": placement}).json()
            cell = {
                name: matrix[name][row][column] for name in ("samples_per_second", "low", "high")
            }
            assert cell == {name: one["throughput"][name] for name in cell}
            assert matrix["step_time_s"][row][column] == one["step_time_s"]
            assert matrix["basis"][row][column] == one["basis"]
            assert matrix["fits"][row][column] == one["memory"]["fits"]
            assert matrix["status"][row][column] == "ok"
        assert matrix["unpriced_operators"][row] == {"mylib::fused": 1}


def test_a_bad_row_or_column_never_fails_a_matrix(
    client: TestClient, question: dict[str, Any]
) -> None:
    good = question["job"]
    jobs = [good, {**good, "batch_size": 0}, {**good, "model": "timm/resnet51"}, "nonsense"]
    placements = ["A10", "A1000000", {"nodes": [{"accelerator": "A10", "cuont": 2}]}]
    response = client.post("/v1/matrix", json={"jobs": jobs, "placements": placements})
    assert response.status_code == 200
    matrix = response.json()
    assert matrix["status"] == [["ok", "error", "error"]] + [["error"] * 3] * 3
    assert matrix["samples_per_second"][1] == [None, None, None]
    assert matrix["fits"][0][1] is None
    where = {(e["job"], e["placement"]): e["errors"][0]["pointer"] for e in matrix["errors"]}
    assert where == {
        (1, None): "/jobs/1/batch_size",
        (2, None): "/jobs/2/model",
        (3, None): "/jobs/3",
        (None, 1): "/placements/1",
        (None, 2): "/placements/2/nodes/0/cuont",
    }
    assert "NaN" not in response.text


def test_a_hundred_thousand_cells_come_in_one_answer(
    client: TestClient, question: dict[str, Any]
) -> None:
    jobs = [{**question["job"], "batch_size": size} for size in range(1, 101)]
    placements = [f"{count}xA10" for count in range(1, 1001)]
    response = client.post("/v1/matrix", json={"jobs": jobs, "placements": placements})
    matrix = json.loads(response.content)
    assert sum(map(len, matrix["samples_per_second"])) == 100_000
    assert matrix["errors"] == []


def test_too_many_cells_are_refused(client: TestClient, question: dict[str, Any]) -> None:
    body = {"jobs": [question["job"]] * 200, "placements": ["A10"] * 1000}
    response = client.post("/v1/matrix", json=body)
    assert response.status_code == 422
    assert "150000" in response.json()["detail"]


def test_training_options_are_answered_over_http(client: TestClient) -> None:
    job = {
        "model": "timm/resnet18", "mode": "training", "batch_size": 4,
        "mixed_precision": {"parameter": "bf16", "reduce": "fp32"}, "frozen": ["conv1*"],
    }  # fmt: skip
    plan = {"zero_stage": 3, "replicate": 2, "offload": ["optimizer", "parameters"]}
    placement = {"nodes": [{"accelerator": "A100-SXM4-80GB", "count": 8}], "plan": plan}
    found = client.post("/v1/predict", json={"job": job, "placement": placement})
    assert found.status_code == 200
    assert any("memory of the host" in text for text in found.json()["warnings"])
    wrong = {**job, "adapter": {"peft_type": "IA3", "target_modules": ["fc"]}}
    refused = client.post("/v1/predict", json={"job": wrong, "placement": placement})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/job/adapter/peft_type"

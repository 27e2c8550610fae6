"""``POST /v1/explain``: the answer of a prediction, and why."""

from __future__ import annotations

import math
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.schemas.answer_bodies import ExplainAnswer


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


def _explain(client: TestClient, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post("/v1/explain", json=body)
    assert response.status_code == 200, response.text
    ExplainAnswer.model_validate_json(response.content, strict=True)
    answer: dict[str, Any] = response.json()
    return answer


def test_the_estimate_is_that_of_a_prediction(client: TestClient, question: dict[str, Any]) -> None:
    found = _explain(client, question)
    assert found["estimate"] == client.post("/v1/predict", json=question).json()
    assert found["model_version"] == found["estimate"]["model_version"]
    assert found["warnings"] == found["estimate"]["warnings"]


def test_the_parts_add_up(client: TestClient, question: dict[str, Any]) -> None:
    found = _explain(client, question)
    for part in ("operators", "operator_classes"):
        total_s = sum(one["time_s"] for one in found[part])
        assert total_s == pytest.approx(found["compute_time_s"])
    first, last = found["contributions"][0], found["contributions"][-1]
    product = math.prod(one["factor"] for one in found["contributions"])
    assert first["step_time_s"] * product == pytest.approx(last["step_time_s"])
    assert last["step_time_s"] == found["estimate"]["step_time_s"]


def test_most_bounds_the_operators(client: TestClient, question: dict[str, Any]) -> None:
    assert len(_explain(client, {**question, "most": 1})["operators"]) == 1


@pytest.mark.parametrize("most", [0, 1_001, 2.5, True, "3"])
def test_nonsense_in_most_is_refused(
    client: TestClient, question: dict[str, Any], most: Any
) -> None:
    response = client.post("/v1/explain", json={**question, "most": most})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/most"


def test_a_job_type_is_refused_with_the_reason(client: TestClient) -> None:
    job = {"job_type": "renderer", "mode": "training", "batch_size": 1}
    response = client.post("/v1/explain", json={"job": job, "placement": "T4"})
    assert response.status_code == 422
    assert "no graph" in response.json()["detail"]


def test_what_was_stored_is_taken_into_account(
    client: TestClient, question: dict[str, Any]
) -> None:
    alone = {**question, "placement": "A100-SXM4-80GB"}
    predicted_s = client.post("/v1/predict", json=alone).json()["step_time_s"]
    seen = {**alone, "step_time_s": 1.4 * predicted_s}
    assert client.post("/v1/observations", json={"observations": [seen]}).json()["accepted"] == 1
    found = _explain(client, question)
    assert "observations of this job" in [one["name"] for one in found["contributions"]]
    assert found["estimate"] == client.post("/v1/predict", json=question).json()
    (near,) = found["nearest"]
    assert near["source"] == "observation"
    assert near["measured_s"] == pytest.approx(1.4 * near["predicted_s"])


def test_a_reference_stands_for_a_job(client: TestClient, question: dict[str, Any]) -> None:
    ref = client.post("/v1/jobs", json={"job": question["job"]}).json()["ref"]
    assert _explain(client, {**question, "job": ref}) == _explain(client, question)

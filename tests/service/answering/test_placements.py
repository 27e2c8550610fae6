"""Curves, rankings and observations over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "inference", "batch_size": 64}
TRAINING: dict[str, Any] = {**JOB, "mode": "training"}


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


def test_a_curve_doubles_unless_told(client: TestClient) -> None:
    answer = client.post("/v1/curve", json={"job": JOB, "accelerator": "A10", "most": 6})
    assert answer.status_code == 200
    curve = answer.json()
    assert curve["counts"] == [1, 2, 4, 6]
    assert curve["efficiency"][0] == pytest.approx(1.0)
    single = client.post("/v1/predict", json={"job": JOB, "placement": "A10"}).json()
    assert curve["samples_per_second"][0] == single["throughput"]["samples_per_second"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"accelerator": None}, "/accelerator"),
        ({"counts": [1, 0]}, "/counts/1"),
        ({"counts": 3}, "/counts"),
        ({"network": "ib-1g"}, "/network"),
        ({"network": {"latency_s": 1}}, "/network"),
        ({"zero_stage": 4}, "/zero_stage"),
        ({"accelerators_per_host": 0}, "/accelerators_per_host"),
        ({"counts": [1, 2], "most": "4"}, "/most"),
        ({"placement": "A10"}, "/placement"),
        ({"accelerator": "A5000000"}, "/accelerator"),
        ({"accelerator": "A100-SXM4-80GB/3g.40gb"}, "/accelerator"),
    ],
)
def test_a_bad_curve_is_pointed_at(
    client: TestClient, change: dict[str, Any], pointer: str
) -> None:
    body = {"job": JOB, "accelerator": "A10", **change}
    answer = client.post("/v1/curve", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"].startswith(pointer)


def test_a_curve_of_slices_is_sent_to_what_answers_for_them(client: TestClient) -> None:
    body = {"job": JOB, "accelerator": "A100-SXM4-80GB/3g.40gb"}
    said = client.post("/v1/curve", json=body).json()["detail"]
    # Of a fraction a curve knows nothing.
    assert "whole accelerators" in said and "fraction" not in said


def test_placements_are_ranked_by_what_they_cost(client: TestClient) -> None:
    body = {
        "job": JOB,
        "placements": ["A10", "H100-SXM5-80GB", "A1000000"],
        "by": "cost",
        "prices": {"A10": 1.0, "H100-SXM5-80GB": 1000.0},
    }
    answer = client.post("/v1/rank", json=body).json()
    assert [one["placement"] for one in answer["best"]] == [0, 1]
    assert answer["best"][0]["score"] > answer["best"][1]["score"]
    assert answer["errors"][0]["placement"] == 2
    assert answer["errors"][0]["status"] == 422


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"placements": []}, "/placements"),
        ({"placements": ["A10"], "by": "beauty"}, "/by"),
        ({"placements": ["A10"], "constraints": {"deadline_s": 1}}, "/constraints/total_samples"),
        ({"placements": ["A10"], "prices": {"A10": 0}}, "/prices/A10"),
        ({"placement": "8xA10", "placements": ["A10"]}, "/placements"),
        ({"search": {}}, "/placement"),
        ({"placement": "8xA10", "search": {"plans": 3}}, "/search/plans"),
        ({"placement": "8xA10"}, "/job/mode"),
    ],
)
def test_a_bad_ranking_is_pointed_at(
    client: TestClient, body: dict[str, Any], pointer: str
) -> None:
    answer = client.post("/v1/rank", json={"job": JOB, **body})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_observations_count_for_their_answer_alone(client: TestClient) -> None:
    plain = client.post("/v1/predict", json={"job": JOB, "placement": "A10"}).json()
    twice = 2 * plain["step_time_s"]
    seen = [{"placement": "A10", "batch_size": 64, "step_time_s": twice}]
    body = {"job": JOB, "placement": "A10", "observations": seen}
    moved = client.post("/v1/predict", json=body).json()
    assert moved["basis"] == "measured"
    assert moved["step_time_s"] == pytest.approx(twice, rel=0.15)
    assert client.post("/v1/predict", json={"job": JOB, "placement": "A10"}).json() == plain


def test_observations_count_in_a_search_of_plans(client: TestClient) -> None:
    job = {
        "model": "zoo/megatron-gpt", "mode": "training", "batch_size": 8, "precision": "fp16",
    }  # fmt: skip
    alone = client.post("/v1/predict", json={"job": job, "placement": "A10"}).json()
    seen = [{"placement": "A10", "batch_size": 8, "step_time_s": 2 * alone["step_time_s"]}]
    body = {"job": job, "placement": "4xA10", "search": {"global_batch_size": 32}}
    plain, slower = (
        client.post("/v1/rank", json={**body, **more}).json()["plans"]
        for more in ({}, {"observations": seen})
    )
    assert slower[0]["plan"] == plain[0]["plan"]
    assert 1.5 < slower[0]["step_time_s"] / plain[0]["step_time_s"] < 2.1


def test_a_step_of_several_micro_batches_comes_back_as_it_was_measured(client: TestClient) -> None:
    job = {**JOB, "mode": "training", "batch_size": 16, "accumulation_steps": 4}
    seen = {"placement": "A10", "step_time_s": 0.003}
    for written in (job, {**job, "script": True}):
        single = {"job": written, "placement": "A10", "observations": [seen]}
        rows = {
            "jobs": [written], "placements": ["A10"], "observations": [{"job": 0, **seen}]
        }  # fmt: skip
        counts = {"job": written, "accelerator": "A10", "counts": [1], "observations": [seen]}
        ranked = {"job": written, "placements": ["A10"], "observations": [seen]}
        best = client.post("/v1/rank", json=ranked).json()["best"][0]["estimate"]
        predicted = client.post("/v1/predict", json=single).json()
        times = [
            predicted["step_time_s"],
            client.post("/v1/matrix", json=rows).json()["step_time_s"][0][0],
            client.post("/v1/curve", json=counts).json()["step_time_s"][0],
            best["step_time_s"],
        ]
        assert times == pytest.approx([0.003] * 4, rel=0.05)
        assert predicted["basis"] == "measured"


def test_observations_of_a_matrix_name_their_job(client: TestClient) -> None:
    plain = client.post("/v1/predict", json={"job": JOB, "placement": "A10"}).json()
    seen = {"placement": "A10", "batch_size": 64, "step_time_s": 2 * plain["step_time_s"]}
    body = {
        "jobs": [JOB, {**JOB, "model": "timm/resnet18"}],
        "placements": ["A10", "2xA10"],
        "observations": [{"job": 0, **seen}],
    }
    matrix = client.post("/v1/matrix", json=body).json()
    assert matrix["basis"][0][0] == "measured"
    assert matrix["basis"][1][0] != "calibrated"
    single = {"job": JOB, "placement": "2xA10", "observations": [seen]}
    answer = client.post("/v1/predict", json=single).json()
    assert matrix["step_time_s"][0][1] == pytest.approx(answer["step_time_s"])
    body["observations"] = [{"job": 2, **seen}]
    refused = client.post("/v1/matrix", json=body)
    assert refused.json()["errors"][0]["pointer"] == "/observations/0/job"


def test_an_job_type_job_is_answered_from_its_observations(client: TestClient) -> None:
    job = {"job_type": "mystery", "mode": "training", "batch_size": 32}
    seen = [{"placement": "V100-SXM2-16GB", "batch_size": 32, "step_time_s": 0.2}]
    body = {"job": job, "placement": "2xV100-SXM2-16GB", "observations": seen}
    answer = client.post("/v1/predict", json=body).json()
    assert 0.15 < answer["step_time_s"] < 0.5
    assert answer["memory"]["fits"] is None
    matrix = client.post(
        "/v1/matrix",
        json={
            "jobs": [job, JOB],
            "placements": ["2xV100-SXM2-16GB"],
            "observations": [{"job": 0, **seen[0]}],
        },
    ).json()
    assert matrix["step_time_s"][0][0] == pytest.approx(answer["step_time_s"])
    assert matrix["status"] == [["ok"], ["ok"]]


def test_a_matrix_may_share_accelerators(client: TestClient) -> None:
    beside = {"nodes": [{"accelerator": "V100-SXM2-16GB"}], "shared_with": [TRAINING]}
    body = {"jobs": [TRAINING], "placements": ["V100-SXM2-16GB", beside]}
    matrix = client.post("/v1/matrix", json=body).json()
    alone, shared = matrix["step_time_s"][0]
    assert shared > alone


def test_stored_observations_count_like_those_that_come_along(client: TestClient) -> None:
    ask = {"job": JOB, "placement": "2xA10"}
    plain = client.post("/v1/predict", json=ask).json()
    seen = {"placement": "A10", "batch_size": 64, "step_time_s": 1.5 * plain["step_time_s"]}
    along = client.post("/v1/predict", json={**ask, "observations": [seen]}).json()
    stored = client.post("/v1/observations", json=[{"job": JOB, **seen}])
    assert stored.status_code in (200, 201), stored.text
    # Twice: the second answer comes from memory.
    for _ in range(2):
        answer = client.post("/v1/predict", json=ask).json()
        assert answer["step_time_s"] == pytest.approx(along["step_time_s"])
        assert answer["throughput"] == pytest.approx(along["throughput"])
    matrix = client.post("/v1/matrix", json={"jobs": [JOB], "placements": ["2xA10"]}).json()
    assert matrix["step_time_s"][0][0] == pytest.approx(along["step_time_s"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/curve", {"job": JOB, "accelerator": "A10", "most": 4}),
        ("/v1/matrix", {"jobs": [JOB], "placements": ["A10", "2xA10"]}),
    ],
)
def test_an_answer_that_the_caller_has_is_not_sent_again(
    client: TestClient, path: str, body: dict[str, Any]
) -> None:
    first = client.post(path, json=body)
    tag = first.headers["etag"]
    again = client.post(path, json=body, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = client.post(path, json={**body, "observations": []}, headers={"If-None-Match": "x"})
    assert other.status_code == 200
    assert other.headers["etag"] == tag


def test_a_job_type_has_a_curve_and_a_ranking(client: TestClient) -> None:
    job = {"job_type": "mystery", "mode": "training", "batch_size": 32}
    seen = [
        {"placement": "T4", "batch_size": 32, "step_time_s": 0.2},
        {"placement": "4xT4", "batch_size": 32, "step_time_s": 0.26, "sync_time_s": 0.05},
    ]
    body = {"job": job, "accelerator": "T4", "counts": [1, 4, 8], "observations": seen}
    curve = client.post("/v1/curve", json=body).json()
    assert curve["basis"] == ["measured", "measured", "calibrated"]
    assert curve["fits"] == [None] * 3
    assert curve["peak_bytes"] == [None] * 3
    single = {"job": job, "placement": "4xT4", "observations": seen}
    answer = client.post("/v1/predict", json=single).json()
    assert curve["step_time_s"][1] == pytest.approx(answer["step_time_s"])
    assert answer["breakdown"]["exposed_communication_s"] == pytest.approx(0.05, rel=0.25)
    ranked = {"job": job, "placements": ["T4", "4xT4"], "observations": seen}
    best = client.post("/v1/rank", json=ranked).json()["best"]
    assert [one["placement"] for one in best] == [1, 0]
    assert best[0]["estimate"]["step_time_s"] == pytest.approx(answer["step_time_s"])


def test_stored_steps_of_a_job_type_count_in_all_its_answers(client: TestClient) -> None:
    job = {"job_type": "stored mystery", "mode": "training", "batch_size": 32}
    seen = [
        {"placement": "T4", "batch_size": 32, "step_time_s": 0.2},
        {"placement": "4xT4", "batch_size": 32, "step_time_s": 0.26, "sync_time_s": 0.05},
    ]
    inline = client.post(
        "/v1/predict", json={"job": job, "placement": "8xT4", "observations": seen}
    ).json()
    kept = client.post("/v1/observations", json=[{"job": job, **one} for one in seen])
    assert kept.status_code in (200, 201), kept.text
    stored = client.post("/v1/predict", json={"job": job, "placement": "8xT4"}).json()
    assert stored["step_time_s"] == pytest.approx(inline["step_time_s"])
    curve = client.post("/v1/curve", json={"job": job, "accelerator": "T4", "counts": [8]}).json()
    assert curve["step_time_s"][0] == pytest.approx(inline["step_time_s"])

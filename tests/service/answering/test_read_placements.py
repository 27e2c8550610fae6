"""``POST /v1/placements``: how placements are read, and what a job holds by them."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.schemas.answer_bodies import PlacementsAnswer

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}


def read(client: TestClient, *placements: Any) -> dict[str, Any]:
    response = client.post("/v1/placements", json={"placements": list(placements)})
    assert response.status_code == 200, response.text
    PlacementsAnswer.model_validate_json(response.content, strict=True)
    answer: dict[str, Any] = response.json()
    return answer


@pytest.mark.parametrize(
    ("written", "accelerator", "count", "precision"),
    [
        ("8xA100", "A100-SXM4-40GB", 8, "amp_bf16"),
        ("p4d.24xlarge", "A100-SXM4-40GB", 8, "amp_bf16"),
        ("--gres=gpu:a100:8", "A100-SXM4-40GB", 8, "amp_bf16"),
        ("DGX-A100", "A100-SXM4-80GB", 8, "amp_bf16"),
        ("Xeon Platinum 8480+", "Xeon-Platinum-8480-Plus", 1, "fp32"),
        ("2x(4xT4)@100gbit, 20us", "T4", 8, "amp_fp16"),
        ({"nodes": [{"accelerator": "V100", "repeat": 2}]}, "V100-SXM2-16GB", 2, "amp_fp16"),
        ("K80", "K80", 1, "fp32"),
    ],
)
def test_any_form_is_read_as_its_accelerators(
    shared: TestClient, written: Any, accelerator: str, count: int, precision: str
) -> None:
    (found,) = read(shared, written)["placements"]
    (kind,) = found["kinds"]
    assert (kind["accelerator"], kind["count"]) == (accelerator, count)
    assert found["usual_precision"] == precision
    # What is answered can be asked, and is the same in both forms.
    again = read(shared, found["placement"], found["text"])["placements"]
    plain = {**found, "warnings": []}
    assert [{**one, "warnings": []} for one in again] == [plain, plain]


@pytest.mark.parametrize(
    ("placement", "whole", "watts"),
    [
        ("4xA100-SXM4-80GB", 4, 4 * 400),
        ("A100-SXM4-80GB fraction=0.5", 0.5, 200),
        ("2xA100-SXM4-80GB power=200", 2, 400),
        ("A100-SXM4-80GB/3g.40gb", 42 / 108, 42 / 108 * 400),
    ],
)
def test_what_is_held_is_what_rankings_price(
    shared: TestClient, placement: str, whole: float, watts: float
) -> None:
    (found,) = read(shared, placement)["placements"]
    assert found["kinds"][0]["whole_accelerators"] == pytest.approx(whole)
    assert found["power_w"] == pytest.approx(watts)
    asked = {"job": JOB, "placements": [placement], "by": "cost", "prices": {"A100-SXM4-80GB": 3.0}}
    (ranked,) = shared.post("/v1/rank", json=asked).json()["best"]
    rate = ranked["estimate"]["throughput"]["samples_per_second"]
    assert ranked["samples_per_joule"] == pytest.approx(rate / watts)
    assert ranked["samples_per_money"] == pytest.approx(rate * 3600 / (3.0 * whole))


def test_a_bad_one_costs_itself_alone(shared: TestClient) -> None:
    found = read(shared, "T4", "T5000", {"nodes": [{"accelerator": "T4", "count": 0}]})
    assert [one is None for one in found["placements"]] == [False, True, True]
    first, second = found["errors"]
    assert (first["placement"], second["placement"]) == (1, 2)
    assert "T5000" in first["detail"]
    assert first["errors"][0]["pointer"] == "/placements/1"
    assert second["errors"][0]["pointer"] == "/placements/2/nodes/0/count"


def test_kinds_that_differ_have_no_usual_precision(shared: TestClient) -> None:
    (found,) = read(shared, "A100-SXM4-80GB+T4")["placements"]
    assert [one["accelerator"] for one in found["kinds"]] == ["A100-SXM4-80GB", "T4"]
    assert found["usual_precision"] == "fp32"


@pytest.mark.parametrize("route", ["placements", "rank"])
def test_what_is_told_one_by_one_is_asked_for_by_the_ten_thousand(
    shared: TestClient, route: str
) -> None:
    job = {"model": "timm/resnet50", "mode": "training", "batch_size": 8}
    question = {"placements": ["T4"] * 10_001, **({"job": job} if route == "rank" else {})}
    response = shared.post(f"/v1/{route}", json=question)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/placements"


@pytest.mark.parametrize("body", [{}, {"placements": []}, {"placements": "T4"}, {"jobs": []}])
def test_a_bad_question_is_refused(shared: TestClient, body: Any) -> None:
    assert shared.post("/v1/placements", json=body).status_code == 422

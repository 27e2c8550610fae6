"""Prices that are kept, and rankings by them."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "inference", "batch_size": 64}


def test_a_price_goes_by_any_name_of_its_accelerator(client: TestClient) -> None:
    answer = client.put("/v1/prices/gpu:h100", json={"per_hour": 2.5, "currency": "EUR"})
    assert answer.status_code == 200
    price = {"accelerator": "H100-SXM5-80GB", "per_hour": 2.5, "currency": "EUR"}
    assert answer.json() == price
    assert client.get("/v1/prices").json() == {"prices": [price]}
    assert client.delete("/v1/prices/H100-SXM5-80GB").status_code == 204
    assert client.get("/v1/prices").json() == {"prices": []}
    assert client.delete("/v1/prices/H100-SXM5-80GB").status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/per_hour"),
        ({"per_hour": 0}, "/per_hour"),
        ({"per_hour": 1, "currency": "euro"}, "/currency"),
        ({"per_hour": 1, "per_day": 2}, "/per_day"),
    ],
)
def test_a_bad_price_is_pointed_at(client: TestClient, body: dict[str, Any], pointer: str) -> None:
    answer = client.put("/v1/prices/A10", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_an_unknown_accelerator_has_no_price(client: TestClient) -> None:
    assert client.put("/v1/prices/A1000000", json={"per_hour": 1}).status_code == 422


def test_rankings_by_cost_use_what_is_kept(client: TestClient) -> None:
    client.put("/v1/prices/A10", json={"per_hour": 1.0})
    body = {"job": JOB, "placements": ["A10"], "by": "cost"}
    kept = client.post("/v1/rank", json=body).json()["best"][0]["score"]
    stated = client.post("/v1/rank", json={**body, "prices": {"gpu:a10": 2.0}}).json()
    # Twice the price, half the samples for it.
    assert stated["best"][0]["score"] == pytest.approx(kept / 2)
    bad = client.post("/v1/rank", json={**body, "prices": {"moon": 2.0}})
    assert bad.json()["errors"][0]["pointer"] == "/prices/moon"


def test_prices_in_several_currencies_are_not_compared(client: TestClient) -> None:
    for accelerator, currency in (("A10", "EUR"), ("H100", "USD")):
        client.put(f"/v1/prices/{accelerator}", json={"per_hour": 1.0, "currency": currency})
    body = {"job": JOB, "placements": ["A10", "H100-SXM5-80GB"], "by": "cost"}
    mixed = client.post("/v1/rank", json=body)
    assert mixed.status_code == 422
    assert "of A10 in EUR, of H100-SXM5-80GB in USD" in mixed.json()["detail"]
    assert mixed.json()["errors"][0]["pointer"] == "/prices"
    stated = client.post("/v1/rank", json={**body, "prices": {"A10": 1.1}}).json()
    assert [one["placement"] for one in stated["best"]]

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

PATH = "/v1/predict"


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


def test_a_plain_question_does_without_its_route(
    client: TestClient, routed: list[bytes], question: dict[str, Any]
) -> None:
    first = client.post(PATH, json=question)
    again = client.post(PATH, json=question)
    other = client.post(PATH, json={**question, "placement": "3xA100-SXM4-80GB"})
    assert not routed
    assert again.content == first.content
    assert again.headers["content-type"] == first.headers["content-type"]
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert other.json()["throughput"] != first.json()["throughput"]


def test_the_route_would_say_the_same(
    client: TestClient, routed: list[bytes], question: dict[str, Any]
) -> None:
    client.post(PATH, json=question)
    for placement in ("2x(8xH100-SXM5-80GB)@ib-400g", "A100-SXM4-80GB+T4", "4xT4 zero=2"):
        asked = {**question, "placement": placement}
        client.post(PATH, json=asked)
        known = client.post(PATH, json=asked)
        by_route = client.post(PATH, json=asked, headers={"Content-Type": "application/json;"})
        assert orjson.loads(routed[-1]) == asked
        assert by_route.content == known.content


def test_direct_answers_are_counted_like_others(
    fresh: TestClient, question: dict[str, Any]
) -> None:
    for _ in range(3):
        fresh.post(PATH, json=question)
    text = fresh.get("/metrics").text
    assert f'perfmodel_requests_total{{method="POST",route="{PATH}",status="200"}} 3.0' in text
    assert f'perfmodel_answers_total{{basis="analytical",route="{PATH}"}} 3.0' in text


def test_a_body_that_comes_in_pieces_is_put_together(
    client: TestClient, question: dict[str, Any]
) -> None:
    first = client.post(PATH, json=question)
    body = orjson.dumps(question)

    def pieces() -> Iterator[bytes]:
        yield body[:20]
        yield body[20:]

    again = client.post(PATH, content=pieces(), headers={"Content-Type": "application/json"})
    assert again.content == first.content


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 422),
        (b'{"job": {"model": "timm/resnet50"}, "placement": 3}', "application/json", 422),
        (b"{}", "text/plain", 415),
    ],
)
def test_what_is_wrong_is_said_as_the_route_says_it(
    client: TestClient, question: dict[str, Any], content: bytes, kind: str, status: int
) -> None:
    client.post(PATH, json={**question, "job": {"model": "timm/resnet50"}})
    answer = client.post(PATH, content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_other_methods_are_left_alone(client: TestClient) -> None:
    assert client.get(PATH).status_code == 405

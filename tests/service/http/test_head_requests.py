"""HEAD answers what GET does, without the body."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.http.bodies import HeadRequests


@pytest.mark.parametrize(
    "path", ["/", "/v2/health/live", "/v2/health/ready", "/v1/models", "/v1/accelerators/T4", "/v2"]
)
def test_the_head_of_an_answer_is_that_of_get(shared: TestClient, path: str) -> None:
    plain = {"Accept-Encoding": "identity"}
    whole, head = shared.get(path, headers=plain), shared.head(path, headers=plain)
    assert (head.status_code, head.content) == (200, b"")
    told = {name: value for name, value in whole.headers.items() if name != "x-request-id"}
    assert {name: head.headers[name] for name in told} == told
    assert int(head.headers["content-length"]) == len(whole.content)


def test_what_is_not_there_or_takes_no_get_is_told_so(shared: TestClient) -> None:
    assert shared.head("/nowhere").status_code == 404
    refused = shared.head("/v1/predict")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_it_is_counted_where_it_was_answered(shared: TestClient) -> None:
    shared.head("/v1/accelerators/T4")
    counted = [line for line in shared.get("/metrics").text.splitlines() if '"HEAD"' in line]
    assert any('"/v1/accelerators/{name}"' in line for line in counted), counted


def test_nothing_of_a_body_is_sent_however_long_it_goes_on() -> None:
    sent: list[dict[str, Any]] = []

    async def stream(scope: Any, receive: Any, send: Any) -> None:
        assert scope["method"] == "GET"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(3):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(HeadRequests(stream)({"type": "http", "method": "HEAD"}, None, send))  # type: ignore[arg-type]
    assert [one["type"] for one in sent] == ["http.response.start", "http.response.body"]
    assert sent[1] == {"type": "http.response.body", "body": b""}

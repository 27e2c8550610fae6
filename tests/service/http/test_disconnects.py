"""Callers who hang up in the middle of a body: nobody's defect."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.http.errors import CLIENT_CLOSED_REQUEST


@pytest.mark.parametrize(
    "path",
    ["/v1/predict", "/v1/matrix", "/v1/rank", "/v1/curve", "/v1/explain", "/v1/observations",
     "/v1/kernels"],
)  # fmt: skip
def test_half_a_body_is_no_failure(
    shared: TestClient, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [
        {"type": "http.request", "body": b'{"jobs": [', "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [
        (b"host", b"localhost"), (b"content-type", b"application/json"),
        (b"content-length", b"1000"),
    ]  # fmt: skip
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1",
        "headers": headers, "client": ("127.0.0.1", 9), "server": ("127.0.0.1", 8000), "state": {},
    }  # fmt: skip
    with caplog.at_level(logging.INFO):
        asyncio.run(shared.app(scope, receive, send))  # type: ignore[arg-type]
    assert [one["status"] for one in sent if "status" in one] in ([], [CLIENT_CLOSED_REQUEST])
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]

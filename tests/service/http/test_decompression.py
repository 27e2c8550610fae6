"""Compressed bodies: the same answers, and no more memory than their limit allows."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import make_app

LIMIT_BYTES = 300_000
QUESTION = {
    "job": {"model": "timm/resnet50", "mode": "training", "batch_size": 64},
    "placement": "T4",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("packed")
    app = make_app(folder, models=folder / "models", max_body_bytes=LIMIT_BYTES)
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found


def _post(client: TestClient, body: bytes, packed: str = "gzip", **headers: str) -> Any:
    headers = {"Content-Type": "application/json", "Content-Encoding": packed, **headers}
    return client.post("/v1/predict", content=body, headers=headers)


def test_a_packed_question_is_answered_as_a_plain_one(client: TestClient) -> None:
    plain = client.post("/v1/predict", json=QUESTION)
    body = json.dumps(QUESTION).encode()
    assert _post(client, gzip.compress(body, mtime=0)).content == plain.content
    assert _post(client, body, "identity").content == plain.content
    # As long as the limit allows, in many pieces.
    spaces = b" " * (LIMIT_BYTES - len(body))
    assert _post(client, gzip.compress(spaces + body, mtime=0)).content == plain.content


def test_what_unpacks_to_too_much_is_refused(client: TestClient) -> None:
    # 50 MB of zeros pack into 50 kB.
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 60_000
    response = _post(client, bomb)
    assert response.status_code == 413
    assert response.headers["content-type"] == "application/problem+json"
    later = _post(client, bomb, Prefer="respond-async")
    assert later.status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no gzip at all",
        gzip.compress(b"{}", mtime=0)[:-3],
        gzip.compress(b"{}", mtime=0) + b"more",
        gzip.compress(b"{}", mtime=0) * 2,
    ],
)
def test_what_is_no_whole_gzip_is_malformed(client: TestClient, body: bytes) -> None:
    response = _post(client, body)
    assert response.status_code == 400
    assert response.json()["type"] == "urn:perfmodel:problem:malformed-body"


@pytest.mark.parametrize("packed", ["br", "zstd", "gzip, gzip"])
def test_other_packings_are_named_as_not_read(client: TestClient, packed: str) -> None:
    response = _post(client, b"x", packed)
    assert response.status_code == 415
    assert response.json()["errors"][0]["allowed"] == ["gzip", "identity"]

"""What a query states and no route reads is refused, wherever the service sets the words."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [
        ("GET", "/v1/accuracy?acelerator=T4", ["accelerator", "cursor", "limit"]),
        ("GET", "/v1/jobs?limit=1&after=x", ["cursor", "limit"]),
        ("GET", "/v1/models?name=default", []),
        ("POST", "/v1/models/default/collect?kep=50", ["keep", "pinned_days", "why"]),
        ("PUT", "/v1/accelerators/T4/aliases/mine?force=1", []),
    ],
)
def test_a_parameter_that_nobody_reads_is_refused(
    shared: TestClient, method: str, path: str, known: list[str]
) -> None:
    refused = shared.request(method, path)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert (error["pointer"], error["allowed"]) == ("/query", known)
    assert "says nothing here" in refused.json()["detail"]


def test_the_document_says_so_of_every_route(shared: TestClient) -> None:
    paths = shared.get("/openapi.json").json()["paths"]
    ours = {path: of for path, of in paths.items() if path.startswith("/v1/")}
    unsaid = [
        f"{method} {path}"
        for path, methods in ours.items()
        for method, operation in methods.items()
        if "422" not in operation["responses"]
    ]
    assert not unsaid


def test_what_is_read_is_taken_and_so_is_what_others_add_to_their_calls(
    shared: TestClient,
) -> None:
    assert shared.get("/v1/jobs?limit=1").status_code == 200
    assert shared.get("/v1/observations?state=accepted&limit=1").status_code == 200
    assert shared.get("/v2/health/live?from=probe").status_code == 200
    # An API server states its time-out so.
    review = {"request": {"uid": "u", "object": None}}
    assert shared.post("/kubernetes/admission/mutate?timeout=5s", json=review).status_code == 200

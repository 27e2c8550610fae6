"""A registered graph is corrected: by whom, and who answers by it from then on."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import CREATED, make_app

from service.access.key_file import KeyFile
from service.access.keys import new_key
from service.routes.graphs import GRAPH_EXAMPLE


@pytest.fixture
def body(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return a graph of the test's own: a product as wide as no other's."""
    wide = 2_000 + zlib.crc32(request.node.name.encode()) % 100_000
    (_, *first), (_, *weight), (_, *product) = GRAPH_EXAMPLE["tensors"]
    tensors = [[[8, 512], *first], [[512, wide], *weight], [[8, wide], *product]]
    return {**GRAPH_EXAMPLE, "tensors": tensors}


def _register(client: TestClient, body: dict[str, Any], **how: Any) -> str:
    answer = client.post("/v1/graphs?batch_size=8", json=body, **how)
    assert answer.status_code in (200, 201), answer.text
    return str(answer.json()["graph"])


def _asked(graph: str, mode: str, batch_size: int = 8) -> dict[str, Any]:
    return {"job": {"graph": graph, "mode": mode, "batch_size": batch_size}, "placement": "A10"}


def test_answers_follow_a_correction(shared: TestClient, body: dict[str, Any]) -> None:
    graph = _register(shared, body)
    wrong, right = _asked(graph, "inference"), _asked(graph, "training", 4)
    before = shared.post("/v1/predict", json=wrong).json()["throughput"]
    assert before["samples_per_second"] and before["tokens_per_second"] is None
    refused = shared.post("/v1/predict", json=right)
    assert refused.status_code == 422 and f"PATCH /v1/graphs/{graph}" in refused.json()["detail"]
    answer = shared.patch(f"/v1/graphs/{graph}?mode=training&batch_size=4&tokens_per_sample=128")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["mode"], found["batch_size"], found["tokens_per_sample"]) == ("training", 4, 128)
    # What was asked and answered before the correction is not remembered.
    assert shared.post("/v1/predict", json=wrong).status_code == 422
    after = shared.post("/v1/predict", json=right).json()["throughput"]
    assert after["tokens_per_second"] == pytest.approx(128 * after["samples_per_second"])
    # Half as many samples in the same step.
    assert after["samples_per_second"] == pytest.approx(before["samples_per_second"] / 2)
    shared.patch(f"/v1/graphs/{graph}?tokens_per_sample=0")
    again = shared.post("/v1/predict", json=right).json()["throughput"]
    assert again["tokens_per_second"] is None


def test_the_graph_itself_stays(shared: TestClient, body: dict[str, Any]) -> None:
    graph = _register(shared, body)
    whole = shared.get(f"/v1/graphs/{graph}?form=json").content
    shared.patch(f"/v1/graphs/{graph}?mode=training")
    assert shared.get(f"/v1/graphs/{graph}?form=json").content == whole


def test_to_register_it_as_another_says_how_to_correct_it(
    shared: TestClient, body: dict[str, Any]
) -> None:
    graph = _register(shared, body)
    other = shared.post("/v1/graphs?batch_size=8&mode=training", json=body)
    assert other.status_code == 409
    assert f"PATCH /v1/graphs/{graph}?mode=training" in other.json()["detail"]
    shared.patch(f"/v1/graphs/{graph}?mode=training")
    again = shared.post("/v1/graphs?batch_size=8", json=body)
    assert again.status_code == 200 and again.json()["mode"] == "training"


@pytest.mark.parametrize(
    ("path", "status"),
    [("{}", 422), ("{}?batch_size=0", 422), ("{}?mode=serving", 422), ("ab12?mode=training", 404)],
)
def test_what_corrects_nothing_is_refused(
    shared: TestClient, body: dict[str, Any], path: str, status: int
) -> None:
    graph = _register(shared, body)
    assert shared.patch(f"/v1/graphs/{path.format(graph)}").status_code == status


def test_another_process_on_the_database_follows(tmp_path: Path, body: dict[str, Any]) -> None:
    first, second = (make_app(tmp_path) for _ in range(2))
    with TestClient(first) as one, TestClient(second) as two:
        graph = _register(one, body)
        assert two.post("/v1/predict", json=_asked(graph, "inference")).status_code == 200
        one.patch(f"/v1/graphs/{graph}?mode=training")
        second.state.dispatcher.state.watch.poll()
        assert two.post("/v1/predict", json=_asked(graph, "inference")).status_code == 422
        assert two.post("/v1/predict", json=_asked(graph, "training")).status_code == 200


def test_its_owner_and_administrators_correct_it_and_that_is_noted(
    tmp_path: Path, body: dict[str, Any]
) -> None:
    tokens = {}
    for name, scope in (("owner", "predict"), ("other", "predict"), ("boss", "admin")):
        token, key = new_key(name, [scope], created_at=CREATED)
        KeyFile(tmp_path / "keys.json").add(key)
        tokens[name] = {"headers": {"authorization": f"Bearer {token}"}}
    with TestClient(make_app(tmp_path)) as client:
        graph = _register(client, body, **tokens["owner"])
        assert client.patch(f"/v1/graphs/{graph}?mode=training").status_code == 401
        said = {
            name: client.patch(f"/v1/graphs/{graph}?mode=training", **how).status_code
            for name, how in tokens.items()
        }
        # Who never registered it does not learn that it is there; who did later may not correct it.
        assert said == {"owner": 200, "other": 404, "boss": 200}
        client.post("/v1/graphs?batch_size=8", json=body, **tokens["other"])
        how = tokens["other"]
        assert client.patch(f"/v1/graphs/{graph}?mode=training", **how).status_code == 403
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    noted = [line for line in lines if line["action"].startswith("PATCH /v1/graphs/")]
    assert [line["status"] for line in noted if line["by"]] == [200, 404, 200, 403]
    assert all(line["query"] == "mode=training" for line in noted)

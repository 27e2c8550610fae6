from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from perfmodel.graph.canonical import from_json
from service.graphs import onnx_upload
from service.routes.graphs import GRAPH_EXAMPLE
from service.settings import Settings

onnx = pytest.importorskip("onnx")

ONNX = {"content-type": "application/octet-stream"}


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


def _matmul(*, external: bool = False, shape: tuple[Any, ...] = ("n", 4)) -> bytes:
    """Return x @ w with w of 4 x 8."""
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4, 8], [0.0] * 32)
    if external:
        weight.ClearField("float_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="/etc/passwd")
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [info("x", onnx.TensorProto.FLOAT, shape)],
        [info("y", onnx.TensorProto.FLOAT, None)],
        [weight],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    content: bytes = onnx.helper.make_model(graph, opset_imports=opset).SerializeToString()
    return content


def _as_wide_as(wide: int) -> dict[str, Any]:
    """Return a graph that is registered nowhere else."""
    (_, *first), (_, *weight), (_, *product) = GRAPH_EXAMPLE["tensors"]
    tensors = [[[8, 512], *first], [[512, wide], *weight], [[8, wide], *product]]
    return {**GRAPH_EXAMPLE, "tensors": tensors}


def test_a_captured_graph_is_registered_and_answered(client: TestClient) -> None:
    url = "/v1/graphs?batch_size=8"
    first = client.post(url, json=GRAPH_EXAMPLE)
    assert first.status_code == 201, first.text
    answer = first.json()
    assert answer["flops"] == 2 * 8 * 512 * 1000
    assert answer["parameter_count"] == 512 * 1000
    assert answer["created"]
    again = client.post(url, json=GRAPH_EXAMPLE)
    assert again.status_code == 200
    assert again.json() == {**answer, "created": False}
    job = {"graph": answer["graph"], "mode": "inference", "batch_size": 8}
    predicted = client.post("/v1/predict", json={"job": job, "placement": "A10"})
    assert predicted.status_code == 200, predicted.text


def test_mode_and_batch_size_may_stand_in_the_graph(client: TestClient) -> None:
    source = {"mode": "training", "batch_size": "8"}
    answer = client.post("/v1/graphs", json={**_as_wide_as(1_001), "source": source}).json()
    assert (answer["mode"], answer["batch_size"]) == ("training", 8)


@pytest.mark.parametrize(
    ("stated", "pointer"),
    [
        ({"optimizer": "adamw"}, "/job/optimizer"),
        ({"activation_checkpointing": True}, "/job/activation_checkpointing"),
        ({"sequence_length": 64}, "/job/sequence_length"),
        ({"memory_format": "channels_last"}, "/job/memory_format"),
        ({"sequence_length": 512, "compiler": "inductor", "precision": "amp_bf16"}, ""),
    ],
)
def test_a_job_is_held_to_what_its_graph_notes(
    client: TestClient, stated: dict[str, Any], pointer: str
) -> None:
    source = {
        "mode": "training", "batch_size": "8", "tokens_per_sample": "512", "optimizer": "sgd",
        "activation_checkpointing": "none", "memory_format": "channels_first",
    }  # fmt: skip
    answer = client.post("/v1/graphs", json={**_as_wide_as(1_003), "source": source}).json()
    job = {"graph": answer["graph"], "mode": "training", "batch_size": 8, **stated}
    response = client.post("/v1/predict", json={"job": job, "placement": "A10"})
    if pointer:
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"] == pointer
        assert "was captured with" in response.json()["detail"]
    else:
        assert response.json()["throughput"]["tokens_per_second"] > 0


def test_a_job_is_held_to_what_was_corrected_and_not_to_what_was_noted(client: TestClient) -> None:
    source = {"mode": "training", "batch_size": "8", "optimizer": "sgd"}
    graph = client.post("/v1/graphs", json={**_as_wide_as(1_005), "source": source}).json()["graph"]
    client.patch(f"/v1/graphs/{graph}?mode=inference&batch_size=4").raise_for_status()
    job = {"graph": graph, "mode": "inference", "batch_size": 4}
    assert client.post("/v1/predict", json={"job": job, "placement": "A10"}).status_code == 200


def test_no_batch_is_chosen_for_a_graph(client: TestClient) -> None:
    source = {"mode": "training", "batch_size": "8"}
    graph = client.post("/v1/graphs", json={**_as_wide_as(1_004), "source": source}).json()["graph"]
    adaptation = {
        "gradient_noise_scale": 100, "initial_batch_size": 8, "batch_size_bounds": [8, 64],
    }  # fmt: skip
    job = {"graph": graph, "mode": "training", "batch_size": 8, "adaptation": adaptation}
    body = {"job": job, "placements": ["A10"], "by": "goodput"}
    [error] = client.post("/v1/rank", json=body).json()["errors"]
    assert "Name the model instead" in error["detail"]


def test_a_graph_that_says_no_batch_size_needs_one(client: TestClient) -> None:
    response = client.post("/v1/graphs", json=_as_wide_as(1_002))
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/query/batch_size"


def test_an_onnx_file_becomes_a_graph(client: TestClient) -> None:
    answer = client.post("/v1/graphs?batch_size=16", content=_matmul(), headers=ONNX).json()
    # 16 x 4 times 4 x 8: 2 * 16 * 4 * 8 FLOP.
    assert answer["flops"] == 2 * 16 * 4 * 8
    job = {"graph": answer["graph"], "mode": "inference", "batch_size": 16}
    predicted = client.post("/v1/predict", json={"job": job, "placement": "A10"})
    assert predicted.status_code == 200, predicted.text


def test_a_batch_that_the_dimensions_contradict_is_refused(client: TestClient) -> None:
    file = _matmul(shape=("n", 4))
    for samples, status in ((8, 422), (17, 201)):
        url = f'/v1/graphs?batch_size={samples}&dimensions={{"n":17}}'
        response = client.post(url, content=file, headers=ONNX)
        assert response.status_code == status, response.text
        if status == 422:
            assert response.json()["errors"][0]["pointer"] == "/batch_size"
            assert "no input has that extent" in response.json()["detail"]


def test_values_in_another_file_are_not_looked_for(client: TestClient) -> None:
    whole, apart = (
        client.post("/v1/graphs?batch_size=16", content=_matmul(external=external), headers=ONNX)
        for external in (False, True)
    )
    assert apart.json()["graph"] == whole.json()["graph"]


def test_a_bad_onnx_file_is_refused_with_the_reason(client: TestClient) -> None:
    content, reason = _matmul()[:-10], "complete"
    response = client.post("/v1/graphs?batch_size=16", content=content, headers=ONNX)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert reason in response.json()["detail"]
    assert client.get("/v2/health/live").status_code == 200


def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path, app: Any) -> None:
    app.state.settings = Settings(onnx_time_s=1e-6)
    with TestClient(app) as client:
        response = client.post("/v1/graphs?batch_size=16", content=_matmul(), headers=ONNX)
    assert response.status_code == 422
    assert "took longer" in response.json()["detail"]


def test_a_machine_that_is_too_busy_to_begin_says_so(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_upload, "_START_S", 1e-6)
    response = client.post("/v1/graphs?batch_size=16", content=_matmul(), headers=ONNX)
    assert response.status_code == 503
    assert response.headers["retry-after"]
    assert "did not start" in response.json()["detail"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("batch_size=0", "/query/batch_size"),
        ("batch_size=8&mode=serving", "/query/mode"),
        ("batch_size=8&dimensions=x", "/query/dimensions"),
        ('batch_size=8&dimensions={"n":0}', "/query/dimensions"),
    ],
)
def test_a_bad_query_is_pointed_at(client: TestClient, query: str, pointer: str) -> None:
    response = client.post(f"/v1/graphs?{query}", content=_matmul(), headers=ONNX)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    "body",
    [
        {},
        {**GRAPH_EXAMPLE, "format": 2},
        {**GRAPH_EXAMPLE, "nodes": []},
        {**GRAPH_EXAMPLE, "nodes": [["mm", "forward", [0, 9], [2], {}, ""]]},
        {**GRAPH_EXAMPLE, "extra": 1},
    ],
)
def test_json_that_is_no_graph_is_refused(client: TestClient, body: Any) -> None:
    response = client.post("/v1/graphs?batch_size=8", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"].startswith("/") or "format" not in body


def test_another_content_type_is_refused(client: TestClient) -> None:
    response = client.post(
        "/v1/graphs?batch_size=8", content=b"x", headers={"content-type": "text/plain"}
    )
    assert response.status_code == 415
    assert "application/octet-stream" in response.json()["errors"][0]["allowed"]


def test_an_upload_above_the_limit_is_refused(client: TestClient) -> None:
    response = client.post("/v1/graphs?batch_size=8", content=b"x" * 1_000_001, headers=ONNX)
    assert response.status_code == 413


def test_the_example_is_a_graph() -> None:
    import orjson

    assert len(from_json(orjson.dumps(GRAPH_EXAMPLE)).nodes) == 1

"""The v2 inference protocol over the service."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

import perfmodel
from service.http.errors import OverloadedError

QUESTION = {
    "job": {"model": "timm/resnet50", "mode": "inference", "batch_size": 64},
    "placement": "8xA100-SXM4-80GB",
}
INFER = "/v2/models/perfmodel/infer"


def _request(*texts: str, **more: Any) -> dict[str, Any]:
    tensor = {"name": "request", "shape": [len(texts)], "datatype": "BYTES", "data": list(texts)}
    return {"inputs": [tensor], **more}


def _columns(answer: dict[str, Any]) -> dict[str, list[Any]]:
    for tensor in answer["outputs"]:
        assert tensor["shape"] == [len(tensor["data"])]
    return {tensor["name"]: tensor["data"] for tensor in answer["outputs"]}


def test_the_server_says_who_it_is(client: TestClient) -> None:
    assert client.get("/v2").json() == {
        "name": "perfmodel",
        "version": perfmodel.__version__,
        "extensions": ["binary_tensor_data"],
    }


def test_health_is_a_matter_of_the_status(client: TestClient) -> None:
    assert client.get("/v2/health/live").status_code == 200
    assert client.get("/v2/health/ready").status_code == 200


def test_the_model_describes_its_tensors(client: TestClient, app: FastAPI) -> None:
    answer = client.get("/v2/models/perfmodel").json()
    assert answer["name"] == "perfmodel"
    assert answer["versions"] == [app.state.dispatcher.estimator.model_version]
    assert answer["inputs"] == [{"name": "request", "datatype": "BYTES", "shape": [-1]}]
    kinds = {tensor["name"]: tensor["datatype"] for tensor in answer["outputs"]}
    assert kinds == {"answer": "BYTES", "samples_per_second": "FP64", "ok": "BOOL"}


def test_the_model_is_ready(client: TestClient) -> None:
    answer = client.get("/v2/models/perfmodel/ready")
    assert (answer.status_code, answer.json()) == (200, {"name": "perfmodel", "ready": True})


def test_an_inference_answers_as_a_question_does(client: TestClient) -> None:
    answer = client.post(INFER, json=_request(json.dumps(QUESTION), id="42")).json()
    assert (answer["id"], answer["model_name"]) == ("42", "perfmodel")
    columns = _columns(answer)
    expected = client.post("/v1/predict", json=QUESTION).json()
    rate = expected["throughput"]["samples_per_second"]
    assert (columns["samples_per_second"], columns["ok"]) == ([rate], [True])
    assert json.loads(columns["answer"][0])["step_time_s"] == expected["step_time_s"]


def test_a_bad_question_costs_its_own_elements_only(client: TestClient) -> None:
    bad = json.dumps({**QUESTION, "placement": "8xA1000"})
    answer = client.post(INFER, json=_request(json.dumps(QUESTION), bad, "{")).json()
    columns = _columns(answer)
    assert columns["ok"] == [True, False, False]
    assert columns["samples_per_second"][0] > 0
    assert columns["samples_per_second"][1:] == [None, None]
    problem = json.loads(columns["answer"][1])
    assert problem["status"] == 422
    assert json.loads(columns["answer"][2])["status"] == 400
    assert "id" not in answer


def test_only_the_outputs_asked_for_are_answered(client: TestClient) -> None:
    asked = _request(json.dumps(QUESTION), outputs=[{"name": "samples_per_second"}])
    assert list(_columns(client.post(INFER, json=asked).json())) == ["samples_per_second"]


def test_nested_data_is_read_row_by_row(client: TestClient) -> None:
    text = json.dumps(QUESTION)
    tensor = {"name": "request", "shape": [2, 1], "datatype": "BYTES", "data": [[text], [text]]}
    answer = client.post(INFER, json={"inputs": [tensor]}).json()
    assert _columns(answer)["ok"] == [True, True]


def _binary(*texts: bytes, cut: int = 0) -> tuple[bytes, dict[str, str]]:
    """Return a body with a binary tensor: JSON, then length and bytes of each text."""
    data = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    data = data[: len(data) - cut]
    tensor = {
        "name": "request", "shape": [len(texts)], "datatype": "BYTES",
        "parameters": {"binary_data_size": len(data)},
    }  # fmt: skip
    head = json.dumps({"inputs": [tensor]}).encode()
    return head + data, {"Inference-Header-Content-Length": str(len(head))}


def test_binary_tensors_are_read(client: TestClient) -> None:
    content, headers = _binary(json.dumps(QUESTION).encode(), b"{")
    answer = client.post(INFER, content=content, headers=headers).json()
    assert _columns(answer)["ok"] == [True, False]


@pytest.mark.parametrize("cut", [1, 10**4])
def test_torn_binary_tensors_are_refused(client: TestClient, cut: int) -> None:
    text = json.dumps(QUESTION).encode()
    content, headers = _binary(text, cut=min(cut, len(text) + 2))
    answer = client.post(INFER, content=content, headers=headers)
    assert answer.status_code == 400
    assert "ends inside a text" in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"inputs": []},
        {"inputs": [{"name": "request", "datatype": "FP32", "shape": [1], "data": [1.0]}]},
        {"inputs": [{"name": "other", "datatype": "BYTES", "shape": [1], "data": ["{}"]}]},
        {"inputs": [{"name": "request", "datatype": "BYTES", "shape": [2], "data": ["{}"]}]},
        {"inputs": [{"name": "request", "datatype": "BYTES", "shape": "1", "data": ["{}"]}]},
        {"inputs": [{"name": "request", "datatype": "BYTES", "shape": [1], "data": [3]}]},
        {**_request("{}"), "outputs": [{"name": "no such output"}]},
        {**_request("{}"), "outputs": 3},
    ],
)
def test_what_cannot_be_read_is_refused_in_the_protocol_s_words(
    client: TestClient, body: Any
) -> None:
    answer = client.post(INFER, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json().keys() == {"error"}


def test_another_model_is_not_found(client: TestClient) -> None:
    for answer in (
        client.get("/v2/models/resnet"),
        client.get("/v2/models/resnet/ready"),
        client.post("/v2/models/resnet/infer", json=_request("{}")),
    ):
        assert answer.status_code == 404
        assert "There is no model 'resnet'" in answer.json()["error"]


def test_an_overload_is_told_of_the_call_and_not_of_its_questions(
    client: TestClient, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*args: object, **more: object) -> None:
        raise OverloadedError("64 questions wait already.")

    monkeypatch.setattr(app.state.dispatcher, "predict", full)
    answer = client.post(INFER, json=_request(json.dumps(QUESTION), "{"))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json() == {"error": "64 questions wait already."}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Encoding": "br"}, 415),
        ({"Content-Length": str(10**12)}, 413),
    ],
)
def test_what_is_refused_before_the_route_has_an_error_too(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    refused = client.post(INFER, content=b"{}", headers=headers)
    assert refused.status_code == status, refused.text
    assert refused.json()["error"] == refused.json()["detail"] != ""

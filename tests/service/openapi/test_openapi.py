"""What OpenAPI says is what the service does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import make_app
from made_up_products import large_product
from pydantic import TypeAdapter, ValidationError

from perfmodel.errors import InvalidInputError
from perfmodel.requests import parse_request
from service.adapters.kserve import InferAnswer
from service.adapters.kubernetes.extender import ExtenderFilterResult, HostPriorityList
from service.adapters.kubernetes.volcano import (
    JobEnqueueableResponse,
    PredicateResponse,
    PrioritizeResponse,
    SessionResponse,
)
from service.adapters.kubernetes.webhook import AdmissionAnswer
from service.schemas.answer_bodies import (
    AccuracyAnswer,
    CurveAnswer,
    ExplainAnswer,
    HealthAnswer,
    KernelsAnswer,
    MatrixAnswer,
    PlacementsAnswer,
    PredictAnswer,
    Problem,
    RankAnswer,
)
from service.schemas.question_bodies import PredictRequest
from service.schemas.state_bodies import (
    AcceleratorsAnswer,
    CampaignEntered,
    DriftCampaignsEntered,
    GraphAnswer,
    JobRegistered,
    ModelsAnswer,
    ObservationsTaken,
    RetrainingEntered,
)

ANSWERS: dict[str, type[Any]] = {
    "/v1/predict": PredictAnswer,
    "/v1/matrix": MatrixAnswer,
    "/v1/curve": CurveAnswer,
    "/v1/rank": RankAnswer,
    "/v1/explain": ExplainAnswer,
    "/v1/placements": PlacementsAnswer,
    "/v1/kernels": KernelsAnswer,
    "/v1/graphs": GraphAnswer,
    "/v1/jobs": JobRegistered,
    "/v1/observations": ObservationsTaken,
    "/v1/campaigns": CampaignEntered,
    "/v1/retrain": RetrainingEntered,
    "/v1/drift/campaign": DriftCampaignsEntered,
    "/v2/models/{model}/infer": InferAnswer,
    "/kubernetes/scheduler/prioritize": HostPriorityList,
    "/kubernetes/scheduler/filter": ExtenderFilterResult,
    "/kubernetes/volcano/prioritize": PrioritizeResponse,
    "/kubernetes/volcano/predicate": PredicateResponse,
    "/kubernetes/volcano/jobEnqueueable": JobEnqueueableResponse,
    "/kubernetes/volcano/onSessionOpen": SessionResponse,
    "/kubernetes/volcano/onSessionClose": SessionResponse,
    "/kubernetes/admission/mutate": AdmissionAnswer,
}


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


@pytest.fixture
def large(tmp_path: Path) -> Iterator[TestClient]:
    """A service whose models take as long as those of the examples."""
    app = make_app(tmp_path, capture=large_product, models=tmp_path / "models")
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found


def test_every_example_is_answered_as_described(large: TestClient) -> None:
    client = large
    document = client.get("/openapi.json").json()
    answered = 0
    for path, methods in document["paths"].items():
        body = methods.get("post", {}).get("requestBody")
        if body is None:
            continue
        examples = body["content"]["application/json"]["examples"]
        assert examples, f"{path} has no example"
        for name, example in examples.items():
            query = "?batch_size=8" if path == "/v1/graphs" else ""
            address = path.replace("{model}", "perfmodel") + query
            response = client.post(address, json=example["value"])
            assert response.status_code in (200, 201, 202), f"{path} {name}: {response.text}"
            # Dialects of other protocols are held to those by tests of their own.
            if path.startswith("/v1/") and not path.startswith("/v1/adapters/"):
                TypeAdapter(ANSWERS[path]).validate_json(response.content, strict=True)
            answered += 1
    assert answered >= 4


def test_every_body_has_an_example_and_every_reference_a_schema(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    references: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                references.append(value["$ref"])
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(document)
    assert references
    assert {r.removeprefix("#/components/schemas/") for r in references} <= set(schemas)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/v1/accelerators", AcceleratorsAnswer),
        ("/v1/models", ModelsAnswer),
        ("/v1/accuracy", AccuracyAnswer),
        ("/v2/health/live", HealthAnswer),
        ("/v2/health/ready", HealthAnswer),
    ],
)
def test_what_is_read_is_as_described(client: TestClient, path: str, answer: type[Any]) -> None:
    response = client.get(path)
    assert response.status_code == 200
    TypeAdapter(answer).validate_json(response.content, strict=True)


def test_problems_are_as_described(client: TestClient) -> None:
    response = client.post("/v1/predict", json={})
    Problem.model_validate_json(response.content, strict=True)


JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
NODE: dict[str, Any] = {"accelerator": "A10", "count": 2}
PIPELINE: dict[str, Any] = {"pipeline": 2, "schedule": "interleaved", "virtual_stages": 2}


@pytest.mark.parametrize(
    "body",
    [
        {"job": JOB, "placement": "A10"},
        {"job": {**JOB, "model": {"graph": "ab"}}, "placement": "A10"},
        {"job": {**JOB, "precision": None, "software": {"torch": "2"}}, "placement": "A10"},
        {"job": {**JOB, "software": {"torch": "banana"}}, "placement": "A10"},
        {"job": JOB, "placement": {"nodes": [NODE], "network": "ib-400g", "plan": {"data": 2}}},
        {"job": JOB, "placement": {"nodes": [NODE], "network": {"bandwidth_bytes_per_s": 1e9}}},
        {"job": {**JOB, "batch_size": 0}, "placement": "A10"},
        {"job": {**JOB, "batch_size": True}, "placement": "A10"},
        {"job": {**JOB, "batch_size": 2**24 + 1}, "placement": "A10"},
        {"job": {**JOB, "mode": "trainings"}, "placement": "A10"},
        {"job": {**JOB, "optimizer": "sdg"}, "placement": "A10"},
        {"job": {**JOB, "model": {"nothing": 1}}, "placement": "A10"},
        {"job": {**JOB, "extra": 1}, "placement": "A10"},
        {"job": {"model": "timm/resnet50"}, "placement": "A10"},
        {"job": JOB},
        {"job": JOB, "placement": ""},
        {"job": JOB, "placement": {"nodes": []}},
        {"job": JOB, "placement": {"nodes": [{"accelerator": "A10", "count": 0}]}},
        {"job": JOB, "placement": {"nodes": [NODE], "fraction": 2}},
        {"job": JOB, "placement": {"nodes": [NODE], "plan": {"zero_stage": 5}}},
        {"job": JOB, "placement": {"nodes": [NODE], "extra": 1}},
        {"job": JOB, "placement": {"nodes": [NODE], "network": {"name": "ib-400g", "rails": 8}}},
        {"job": JOB, "placement": {"nodes": [NODE], "network": {"name": "ib-400g", "rails": 65}}},
        {"job": JOB, "placement": {"nodes": [NODE], "plan": PIPELINE}},
        {"job": JOB, "placement": {"nodes": [NODE], "plan": {**PIPELINE, "schedule": "GPipe"}}},
        {"job": JOB, "placement": {"nodes": [NODE], "plan": {"sequence_parallel": 1}}},
    ],
)
def test_the_described_schema_and_the_reader_refuse_the_same(body: dict[str, Any]) -> None:
    assert _described_allows(body) == _reader_allows(body)


def test_words_that_are_read_as_others_are_described_as_those() -> None:
    for words in ({"mode": "Training"}, {"precision": "half"}, {"optimizer": "AdamW"}):
        body = {"job": {**JOB, **words}, "placement": "A10"}
        assert _reader_allows(body) and not _described_allows(body), words


def _described_allows(body: dict[str, Any]) -> bool:
    try:
        PredictRequest.model_validate(body)
    except ValidationError:
        return False
    return True


def _reader_allows(body: dict[str, Any]) -> bool:
    try:
        parse_request(body)
    except InvalidInputError:
        return False
    return True

"""Whatever is sent, the service answers as it says, and never with an error of its own."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import make_app
from jsonschema import Draft202012Validator
from schema_bodies import Bodies
from waiting import PATIENCE_S

#: Of each route: some as described, twice as many spoilt.
_ROUNDS = 6
_JOB = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
_JOBS = [
    _JOB,
    {**_JOB, "accumulation_steps": 4, "precision": "amp_fp16", "optimizer": "adam"},
    {**_JOB, "mode": "inference", "compiler": "inductor", "memory_format": "channels_last"},
    {**_JOB, "adaptation": {"gradient_noise_scale": 4e3, "initial_batch_size": 64,
                            "batch_size_bounds": [64, 512]}},
    {"job_type": "click-rates", "mode": "training", "batch_size": 8},
]  # fmt: skip
_NODES = [{"accelerator": "T4", "count": 4}, {"accelerator": "A100", "count": 8, "repeat": 2}]
_PLACES = [
    "T4",
    "2x(8xH100-SXM5-80GB)@ib-400g",
    {"nodes": _NODES, "network": {"bandwidth_bytes_per_s": 1e10, "latency_s": 1e-6}},
    {"nodes": _NODES[1:], "plan": {"data": 4, "pipeline": 4}, "power_limit_w": 200.0},
    {"nodes": _NODES[:1], "shared_with": [_JOB], "sharing": "mps", "loader_workers": 3},
]
#: What lets a body be understood, so that more than its reader is looked at.
_PLAUSIBLE: dict[str, Any] = {
    "job": _JOBS,
    "jobs": [_JOBS, _JOBS[:1]],
    "placement": _PLACES,
    "placements": [_PLACES, _PLACES[:2]],
    "accelerator": ["T4", "a100"],
    "network": ["ib-400g", None],
    "link": ["nvlink3", None],
    "pin_model": ["analytical", None],
    "deadline_ms": [2_000, 1e-3],
    "prices": [{"T4": 0.4}, {}],
    "candidates": [{"old": "T4", "new": "A100"}],
    "observations": [
        [{"placement": "T4", "batch_size": 64, "step_time_s": 0.001, "job": 0}],
        [{"placement": "T4", "batch_size": 64, "step_time_s": 0.001}],
        [{"job": _JOB, "placement": "2xT4", "batch_size": 64, "step_time_s": 0.001}],
    ],
    "search": [],
    "name": ["Fuzz-1"],
    "peak_flops": [{"fp32": 1e13}],
    "sources": [],
    "core_count": [64],
    "pcie_generation": [4],
    "year": [2026],
    "currency": ["EUR"],
}
_HEADERS = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder = tmp_path_factory.mktemp("fuzz")
    app = make_app(folder, models=folder / "models", max_cells=10_000)
    with TestClient(app, raise_server_exceptions=False) as found:
        yield found


def _routes() -> list[tuple[str, str]]:
    return [
        ("post", f"/v1/{name}")
        for name in ("predict", "matrix", "curve", "rank", "explain", "jobs", "observations")
    ] + [
        ("post", "/v1/graphs"),
        ("post", "/v1/placements"),
        ("post", "/v1/adapters/slurm"),
        ("post", "/v1/adapters/dstack/apply_policies/on_run_apply"),
        ("post", "/v2/models/{model}/infer"),
        ("post", "/kubernetes/scheduler/prioritize"),
        ("post", "/kubernetes/scheduler/filter"),
        ("post", "/kubernetes/volcano/prioritize"),
        ("post", "/kubernetes/volcano/predicate"),
        ("post", "/kubernetes/admission/mutate"),
        ("put", "/v1/prices/{accelerator}"),
        ("put", "/v1/accelerators/{name}"),
    ]


@pytest.mark.parametrize(("method", "path"), _routes(), ids=lambda part: part)
def test_no_body_is_answered_with_a_defect(client: TestClient, method: str, path: str) -> None:
    document = client.get("/openapi.json").json()
    operation = document["paths"][path][method]
    described = operation["requestBody"]["content"]["application/json"]
    examples = [one["value"] for one in described["examples"].values()]
    # The same bodies in every run; another number looks elsewhere.
    chance = random.Random(f"{path} 1")
    # One placement is for the search of plans, and goes with no others.
    plausible = {**_PLAUSIBLE, "placement": []} if path == "/v1/rank" else _PLAUSIBLE
    bodies = Bodies(described["schema"], document["components"]["schemas"], chance, plausible)
    address = path.format(model="perfmodel", accelerator="T4", name="Fuzz-1")

    for _ in range(_ROUNDS):
        made = bodies.described()
        for body in (made, bodies.spoilt(made), bodies.spoilt(chance.choice(examples))):
            began = time.monotonic()
            # Escaped, so that halves of characters can be sent too.
            content = json.dumps(body).encode()
            response = client.request(method, address, content=content, headers=_HEADERS)
            _check(document, operation, response, body)
            # No body of a few hundred bytes may hold the service up.
            assert time.monotonic() - began < PATIENCE_S, body


def _check(document: Any, operation: Any, response: Any, body: Any) -> None:
    status = str(response.status_code)
    # 504: a body may allow less time than anything takes.
    assert response.status_code < 500 or status == "504", (status, response.text, body)
    assert status in operation["responses"], (status, response.text, body)
    if response.status_code < 400:
        return
    media = response.headers["content-type"].partition(";")[0]
    schema = operation["responses"][status]["content"][media]["schema"]
    whole = {**schema, "components": document["components"]}
    Draft202012Validator(whole).validate(response.json())


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=-1", "limit=x", "limit=1001", "cursor=x", "cursor=before-", "cursor=%00"],
)
@pytest.mark.parametrize("path", ["jobs", "observations", "operations", "accuracy"])
def test_no_query_is_answered_with_a_defect(client: TestClient, path: str, query: str) -> None:
    response = client.get(f"/v1/{path}?{query}")
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["%00", "..%2f..", "%ff%fe", "a" * 5_000, "'; drop table jobs;--"])
def test_no_name_is_answered_with_a_defect(client: TestClient, name: str) -> None:
    for method, path in (
        ("get", "/v1/jobs/"),
        ("get", "/v1/operations/"),
        ("get", "/v1/accelerators/"),
        ("delete", "/v1/accelerators/"),
        ("delete", "/v1/prices/"),
        ("delete", "/v1/operations/"),
    ):
        response = client.request(method, path + name)
        assert response.status_code in (404, 405, 422), (method, path, response.text)

"""Jobs are registered once and asked for by their reference."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from guarded_service import CREATED, guarded_service

from service.access.keys import new_key
from service.schemas.state_bodies import JobEntry, JobRegistered, JobsAnswer

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}


@pytest.fixture
def client(shared: TestClient) -> TestClient:
    return shared


def _register(client: TestClient, job: dict[str, Any] | str) -> str:
    response = client.post("/v1/jobs", json={"job": job})
    assert response.status_code in (200, 201), response.text
    ref: str = response.json()["ref"]
    return ref


def test_a_job_is_registered_once(either: TestClient) -> None:
    first = either.post("/v1/jobs", json={"job": JOB})
    assert first.status_code == 201
    JobRegistered.model_validate_json(first.content, strict=True)
    # The same job, written with a default and in another order.
    again = either.post(
        "/v1/jobs",
        json={"job": {"batch_size": 64, "precision": "fp32", **JOB, "optimizer": None}},
    )
    assert again.status_code == 200
    assert again.json() == {**first.json(), "created": False}


def test_a_reference_registers_what_it_refers_to(client: TestClient) -> None:
    ref = _register(client, JOB)
    assert _register(client, ref) == ref


def test_another_job_has_another_reference(client: TestClient) -> None:
    assert _register(client, JOB) != _register(client, {**JOB, "batch_size": 32})


def test_a_reference_stands_for_the_job_in_every_question(client: TestClient) -> None:
    ref = _register(client, JOB)
    for path, rest in (
        ("/v1/predict", {"placement": "8xA100-SXM4-80GB"}),
        ("/v1/curve", {"accelerator": "A100-SXM4-80GB", "counts": [1, 8]}),
        ("/v1/rank", {"placements": ["A100-SXM4-80GB", "V100-SXM2-16GB"]}),
    ):
        written = client.post(path, json={"job": JOB, **rest})
        assert written.status_code == 200, written.text
        for job in (ref, {"ref": ref}):
            for _ in range(2):  # read, then from memory
                assert client.post(path, json={"job": job, **rest}).content == written.content
    both = {"jobs": [JOB, ref], "placements": ["A100-SXM4-80GB"]}
    rate = client.post("/v1/matrix", json=both).json()["samples_per_second"]
    assert rate[0] == rate[1]


def test_an_unknown_reference_and_an_impossible_page_are_refused(
    either: TestClient,
) -> None:
    for ref in ("0" * 32, "timm/resnet50", "", "\x00", "é" * 300):
        response = either.post("/v1/predict", json={"job": ref, "placement": "A100"})
        assert response.status_code == 422
        problem = response.json()
        assert problem["type"] == "urn:perfmodel:problem:unknown-job"
        assert problem["errors"][0]["pointer"] == "/job"
        assert either.get(f"/v1/jobs/{quote(ref) or 'x'}").status_code == 404
    for query in ("cursor=x", "limit=0", "limit=1001"):
        response = either.get(f"/v1/jobs?{query}")
        assert response.status_code == 422
        assert response.json()["errors"][0]["pointer"].startswith("/query/")


def test_an_unknown_reference_costs_its_own_cells_only(client: TestClient) -> None:
    question = {"jobs": [JOB, "0" * 32], "placements": ["A100-SXM4-80GB"]}
    matrix = client.post("/v1/matrix", json=question).json()
    assert matrix["status"] == [["ok"], ["error"]]
    assert matrix["errors"][0]["errors"][0]["pointer"] == "/jobs/1"


def test_jobs_are_listed_in_pages(either: TestClient) -> None:
    refs = [_register(either, {**JOB, "batch_size": size}) for size in (1, 2, 3)]
    first = either.get("/v1/jobs?limit=2")
    JobsAnswer.model_validate_json(first.content, strict=True)
    second = either.get("/v1/jobs", params={"cursor": first.json()["next_cursor"]})
    listed = [job["ref"] for page in (first, second) for job in page.json()["jobs"]]
    assert listed == refs[::-1]
    assert second.json()["next_cursor"] is None
    one = either.get(f"/v1/jobs/{refs[0]}")
    JobEntry.model_validate_json(one.content, strict=True)
    assert one.json()["job"] == {**JOB, "batch_size": 1}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/job"),
        ({"job": {**JOB, "batch_size": 0}}, "/job/batch_size"),
        ({"job": {**JOB, "model": "timm/resnt50"}}, "/job/model"),
        ({"job": JOB, "more": 1}, "/more"),
        ([], ""),
    ],
)
def test_what_is_no_job_is_not_kept(client: TestClient, body: Any, pointer: str) -> None:
    before = client.get("/v1/jobs").json()
    response = client.post("/v1/jobs", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == pointer
    assert client.get("/v1/jobs").json() == before


def test_jobs_are_shown_to_the_keys_that_registered_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for guarded in guarded_service(tmp_path_factory):
        client = guarded.client
        other, key = new_key("other", ["predict"], created_at=CREATED)
        client.app.state.keys.add(key)  # type: ignore[attr-defined]
        own, admin = guarded.bearer("predict"), guarded.bearer("admin")
        foreign = {"Authorization": f"Bearer {other}"}
        job = {"model": "timm/resnet18", "mode": "training", "batch_size": 8}
        ref = client.post("/v1/jobs", json={"job": job}, headers=own).json()["ref"]

        def listed(headers: dict[str, str], client: TestClient = client) -> list[str]:
            return [one["ref"] for one in client.get("/v1/jobs", headers=headers).json()["jobs"]]

        assert (listed(own), listed(foreign), listed(admin)) == ([ref], [], [ref])
        shown = [client.get(f"/v1/jobs/{ref}", headers=h).status_code for h in (own, foreign)]
        assert shown == [200, 404]
        # Whoever has the reference may ask about the job: schedulers do, for the jobs of others.
        asked = {"job": ref, "placement": "A10"}
        assert client.post("/v1/predict", json=asked, headers=foreign).status_code == 200
        # The same job of both.
        again = client.post("/v1/jobs", json={"job": job}, headers=foreign)
        assert again.status_code == 200 and again.json()["ref"] == ref
        assert listed(foreign) == [ref]

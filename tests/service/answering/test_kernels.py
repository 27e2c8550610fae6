"""``POST /v1/kernels``: times of kernels by their shape."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from guarded_service import make_app
from made_up_kernels import train_quickly

from service.schemas.answer_bodies import KernelsAnswer

GEMM: dict[str, Any] = {"op": "gemm", "precision": "fp16", "shape": {"m": 512, "n": 512, "k": 512}}


def _ask(client: TestClient, kernels: list[Any], accelerators: list[str]) -> dict[str, Any]:
    response = client.post("/v1/kernels", json={"kernels": kernels, "accelerators": accelerators})
    assert response.status_code == 200, response.text
    KernelsAnswer.model_validate_json(response.content, strict=True)
    answer: dict[str, Any] = response.json()
    return answer


def test_every_pair_is_answered_or_says_why(shared: TestClient) -> None:
    found = _ask(shared, [GEMM, {**GEMM, "op": "gem"}], ["T4", "A100-SXM4-80GB"])
    assert [(one["kernel"], one["accelerator"]) for one in found["answers"]] == [
        (0, "T4"), (0, "A100-SXM4-80GB"),
    ]  # fmt: skip
    (error,) = found["errors"]
    assert (error["kernel"], error["accelerator"]) == (1, None)
    assert error["did_you_mean"] == ["gemm"]
    assert found["model_version"] == "roofline"


def test_a_whole_request_that_says_nothing_is_refused(shared: TestClient) -> None:
    response = shared.post("/v1/kernels", json={"kernels": [GEMM]})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/accelerators"


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a version of the model of kernels that lies elsewhere."""
    return train_quickly(30, tmp_path_factory.mktemp("elsewhere"), limit=20)


@pytest.mark.parametrize("promoted", [False, True])
def test_a_version_that_is_added_answers_after_a_reload(
    tmp_path: Path, version: Path, promoted: bool
) -> None:
    with TestClient(make_app(tmp_path, models=tmp_path / "models")) as client:
        before = _ask(client, [GEMM], ["T4"])
        folder = tmp_path / "models" / "kernels" / version.name
        shutil.copytree(version, folder)
        if promoted:
            response = client.post(f"/v1/models/kernels/{folder.name}/promote?why=first")
            assert response.status_code == 200, response.text
        else:
            assert client.post("/v1/models/reload").status_code == 200
        after = _ask(client, [GEMM], ["T4"])
    assert before["model_version"] == "roofline"
    assert after["model_version"] == f"kernels/{folder.name}"
    assert after["answers"][0]["basis"] == "interpolated"

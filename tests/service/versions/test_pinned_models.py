"""A pinned version answers and no other, or nobody does."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held_service import HeldService, held_service
from trained_version import trained_version

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
PREDICT: dict[str, Any] = {"job": JOB, "placement": "A10"}
QUESTIONS: dict[str, dict[str, Any]] = {
    "predict": PREDICT,
    "matrix": {"jobs": [JOB], "placements": ["A10", "2xA10"]},
    "curve": {"job": JOB, "accelerator": "A10", "counts": [1, 2]},
    "rank": {"job": JOB, "placements": ["A10", "T4"]},
    "explain": PREDICT,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_version(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, trained: Path) -> Iterator[HeldService]:
    folder = tmp_path_factory.mktemp("pinned")
    for version in ("1", "2", "broken"):
        shutil.copytree(trained, folder / "models" / "default" / version)
    (folder / "models" / "default" / "broken" / "measured.json").write_bytes(b"{}")
    with held_service(folder, pinned_models=1, models_poll_s=0) as service:
        yield service


def _versions(route: str, answer: dict[str, Any]) -> set[str]:
    if route == "rank":
        ranked = answer["best"] + answer["left_out"]
        return {answer["model_version"], *(one["estimate"]["model_version"] for one in ranked)}
    return {answer["model_version"]}


@pytest.mark.parametrize("version", ["default/1", "held/1", "analytical"])
@pytest.mark.parametrize("route", QUESTIONS)
def test_the_pinned_version_answers(service: HeldService, route: str, version: str) -> None:
    answer = service.ask(route, **QUESTIONS[route], pin_model=version)
    assert _versions(route, answer) == {"roofline" if version == "analytical" else version}
    # No other is asked to answer for it, and the one that serves goes on.
    assert _versions(route, service.ask(route, **QUESTIONS[route])) == {"held/1"}


def test_the_analytical_model_has_two_names(service: HeldService) -> None:
    answer = service.ask("predict", **PREDICT, pin_model="analytical")
    assert answer == service.ask("predict", **PREDICT, pin_model="roofline")
    assert answer["basis"] == "analytical"
    assert answer["warnings"][0].startswith("The analytical model answers")


def test_no_more_versions_are_kept_than_may_be(service: HeldService) -> None:
    loaded = []
    for version in ("default/1", "default/2", "default/1"):
        answer = service.ask("predict", **PREDICT, pin_model=version)
        assert answer["model_version"] == version
        loaded.append(service.client.get("/v1/models").json()["loaded"])
    assert loaded == [["held/1", "default/1"], ["held/1", "default/2"], ["held/1", "default/1"]]


def test_a_version_that_is_not_there_is_refused_with_those_that_are(service: HeldService) -> None:
    problem = service.ask("predict", 422, **PREDICT, pin_model="default/3")
    assert problem["type"] == "urn:perfmodel:problem:unknown-model-version"
    (error,) = problem["errors"]
    assert error["pointer"] == "/pin_model"
    assert error["allowed"] == ["analytical", "default/1", "default/2", "default/broken", "held/1"]
    assert "default/1" in problem["did_you_mean"]
    for odd in ("../models/default/1", "default/1/", "default", "/", "default/../default/1"):
        service.ask("predict", 422, **PREDICT, pin_model=odd)


def test_a_damaged_version_is_refused_with_the_others(service: HeldService) -> None:
    problem = service.ask("predict", 409, **PREDICT, pin_model="default/broken")
    assert "measured.json" in problem["detail"]
    (error,) = problem["errors"]
    assert error["pointer"] == "/pin_model" and "default/broken" not in error["allowed"]
    assert {"analytical", "held/1", "default/1"} <= set(error["allowed"])


def test_a_version_that_is_not_loaded_in_time_is_504_then_answers(service: HeldService) -> None:
    service.ask("predict", **PREDICT, pin_model="default/2")
    held = threading.Event()
    service.dispatcher.loads.submit(held.wait)  # versions are loaded one at a time
    question: dict[str, Any] = {**PREDICT, "pin_model": "default/1", "deadline_ms": 20}
    try:
        problem = service.ask("predict", 504, **question)
        assert "is being loaded" in problem["detail"]
        # Who pins nothing does not notice.
        assert service.ask("predict", **PREDICT)["model_version"] == "held/1"
    finally:
        held.set()
    service.finish()
    assert service.ask("predict", **{**question, "deadline_ms": 60_000})["model_version"]

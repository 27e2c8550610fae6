"""Who cannot wait gets the analytical answer, and the next one who asks the full one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held_service import HeldService, held_service

JOB: dict[str, Any] = {"model": "timm/resnet50", "mode": "training", "batch_size": 64}
OTHER: dict[str, Any] = {**JOB, "model": "timm/resnet18"}
NEW: dict[str, Any] = {**JOB, "model": "timm/never_asked_about"}
KIND: dict[str, Any] = {"job_type": "click-rates", "mode": "training", "batch_size": 512}
SEEN: dict[str, Any] = {"placement": "A10", "batch_size": 512, "step_time_s": 0.02}
#: Less than anything that needs a thread takes; enough for a thread to start.
AT_ONCE_MS, A_WHILE_MS = 1, 60


@pytest.fixture
def service(tmp_path: Path) -> Iterator[HeldService]:
    with held_service(tmp_path) as service:
        yield service


@pytest.fixture
def held(service: HeldService) -> HeldService:
    """A service that knows the step of a job, and whose model answers no more."""
    service.client.post("/v1/jobs", json={"job": JOB})
    service.model.gate.shut()
    return service


def _grown(service: HeldService, before: dict[str, float]) -> dict[str, float]:
    after = service.metrics()
    return {n: after[n] - before.get(n, 0) for n in after if after[n] != before.get(n, 0)}


@pytest.mark.parametrize("deadline_ms", [AT_ONCE_MS, A_WHILE_MS])
def test_a_known_graph_is_answered_analytically_then_in_full(
    held: HeldService, deadline_ms: float
) -> None:
    before = held.metrics()
    answer = held.ask("predict", job=JOB, placement="A10", deadline_ms=deadline_ms)
    assert (answer["basis"], answer["model_version"]) == ("analytical", "roofline")
    assert f"deadline_ms={deadline_ms}" in answer["warnings"][0]
    assert not any("No trained model" in text for text in answer["warnings"])
    grown = _grown(held, before)
    assert grown['perfmodel_fallbacks_total{reason="deadline",route="/v1/predict"}'] == 1
    assert grown['perfmodel_answers_total{basis="analytical",route="/v1/predict"}'] == 1
    held.finish()
    full = held.ask("predict", job=JOB, placement="A10", deadline_ms=deadline_ms)
    assert (full["basis"], full["model_version"]) == ("interpolated", "held/1")
    # The held model says twice the analytical time.
    assert full["step_time_s"] == pytest.approx(2 * answer["step_time_s"], rel=1e-6)
    assert full == held.ask("predict", job=JOB, placement="A10")


def test_a_registered_job_of_which_a_part_is_trained_is_answered_at_once(
    service: HeldService,
) -> None:
    job = {
        "model": "zoo/megatron-gpt", "mode": "training", "precision": "bf16", "batch_size": 2,
        "frozen": ["tokens.weight"],
    }  # fmt: skip
    service.client.post("/v1/jobs", json={"job": job})
    service.model.gate.shut()
    answer = service.ask("predict", job=job, placement="A10", deadline_ms=AT_ONCE_MS)
    assert (answer["basis"], answer["model_version"]) == ("analytical", "roofline")


def test_the_fallback_is_what_the_pinned_analytical_model_says(held: HeldService) -> None:
    hasty = held.ask("predict", job=JOB, placement="2xA10", deadline_ms=AT_ONCE_MS)
    pinned = held.ask("predict", job=JOB, placement="2xA10", pin_model="analytical")
    assert hasty.pop("warnings")[1:] == pinned.pop("warnings")
    assert hasty == pinned


@pytest.mark.parametrize("deadline_ms", [AT_ONCE_MS, A_WHILE_MS])
def test_a_graph_that_is_not_captured_is_504_then_answered(
    service: HeldService, deadline_ms: float
) -> None:
    service.capture.gate.shut()
    response = service.client.post(
        "/v1/predict", json={"job": NEW, "placement": "A10", "deadline_ms": deadline_ms}
    )
    assert response.status_code == 504
    assert response.headers["retry-after"] == "1"
    problem = response.json()
    assert problem["type"] == "urn:perfmodel:problem:not-in-time"
    assert "POST /v1/jobs" in problem["detail"]
    service.finish()
    full = service.ask("predict", job=NEW, placement="A10", deadline_ms=deadline_ms)
    assert full["model_version"] == "held/1"


def test_a_registered_job_is_answered_by_its_reference(held: HeldService) -> None:
    ref = held.client.post("/v1/jobs", json={"job": JOB}).json()["ref"]
    answer = held.ask("predict", job=ref, placement="A10", deadline_ms=AT_ONCE_MS)
    assert answer["basis"] == "analytical"
    unknown = "0" * 32
    assert held.ask("predict", 504, job=unknown, placement="A10", deadline_ms=AT_ONCE_MS)
    held.finish()
    # Looked up by now, and there is none: without a hurry the same is 422.
    held.ask("predict", 422, job=unknown, placement="A10")


def test_who_forbids_fallbacks_is_refused(held: HeldService) -> None:
    question: dict[str, Any] = {
        "job": JOB,
        "placement": "A10",
        "deadline_ms": A_WHILE_MS,
        "allow_fallback": False,
    }
    problem = held.ask("predict", 504, **question)
    assert "allow_fallback" in problem["detail"]
    held.finish()
    assert held.ask("predict", **question)["model_version"] == "held/1"


def test_a_pinned_version_never_falls_back(held: HeldService) -> None:
    question: dict[str, Any] = {
        "job": JOB,
        "placement": "A10",
        "deadline_ms": A_WHILE_MS,
        "pin_model": "held/1",
    }
    assert "pin_model" in held.ask("predict", 504, **question)["detail"]
    held.ask("matrix", 504, jobs=[JOB], placements=["A10"], deadline_ms=20, pin_model="held/1")


def test_the_header_counts_where_the_body_says_nothing(held: HeldService) -> None:
    question: dict[str, Any] = {"job": JOB, "placement": "A10"}
    headers = {"X-Deadline-Ms": "1"}
    answer = held.client.post("/v1/predict", json=question, headers=headers).json()
    assert "deadline_ms=1:" in answer["warnings"][0]
    stated = {**question, "deadline_ms": 2}
    answer = held.client.post("/v1/predict", json=stated, headers=headers).json()
    assert "deadline_ms=2:" in answer["warnings"][0]
    wrong = held.client.post("/v1/predict", json=question, headers={"X-Deadline-Ms": "soon"})
    assert wrong.status_code == 422 and "'soon'" in wrong.json()["detail"]


def test_the_header_is_described_where_it_counts(service: HeldService) -> None:
    paths = service.client.get("/openapi.json").json()["paths"]
    described = {
        path
        for path, methods in paths.items()
        for parameter in methods.get("post", {}).get("parameters", [])
        if parameter["name"] == "X-Deadline-Ms"
    }
    assert described == {f"/v1/{route}" for route in ("predict", *_ROUTES)}


def test_options_that_cannot_be_read_are_refused(service: HeldService) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"deadline_ms": 0}, "/deadline_ms"),
        ({"deadline_ms": "5"}, "/deadline_ms"),
        ({"deadline_ms": True}, "/deadline_ms"),
        ({"deadline_ms": 1e9}, "/deadline_ms"),
        ({"allow_fallback": 1}, "/allow_fallback"),
        ({"pin_model": 1}, "/pin_model"),
        ({"pin_model": " "}, "/pin_model"),
    ]
    for route in ("predict", *_ROUTES):
        for options, pointer in wrong:
            assert service.ask(route, 422, **options)["errors"][0]["pointer"] == pointer


def test_a_question_is_worked_on_once(held: HeldService) -> None:
    question: dict[str, Any] = {"job": JOB, "placement": "A10", "deadline_ms": A_WHILE_MS}
    for _ in range(3):
        assert held.ask("predict", **question)["basis"] == "analytical"
    held.finish()
    assert held.model.calls == 1


def test_observed_steps_do_not_count_in_a_hurry(held: HeldService) -> None:
    plain = held.ask("predict", job=JOB, placement="A10", deadline_ms=AT_ONCE_MS)
    seen = {"placement": "A10", "batch_size": 64, "step_time_s": 0.006}
    hasty = held.ask(
        "predict", job=JOB, placement="A10", deadline_ms=AT_ONCE_MS, observations=[seen]
    )
    assert hasty == plain and "without what was observed" in hasty["warnings"][0]
    held.finish()
    full = held.ask("predict", job=JOB, placement="A10", observations=[seen])
    assert full["basis"] == "measured"


def test_a_job_type_is_answered_from_its_observations(service: HeldService) -> None:
    answer = service.ask(
        "predict", job=KIND, placement="A10", observations=[SEEN], deadline_ms=AT_ONCE_MS
    )
    assert answer["model_version"] == "opaque"
    # 512 samples in 0.02 s.
    assert answer["throughput"]["samples_per_second"] == pytest.approx(25_600, rel=0.2)


def test_an_overload_is_no_reason_to_refuse_what_is_known(tmp_path: Path) -> None:
    with held_service(tmp_path, max_waiting=2) as service:
        service.client.post("/v1/jobs", json={"job": JOB})
        held = threading.Event()
        for _ in range(2):
            service.dispatcher.threads.submit(held.wait)
        depth = 'perfmodel_queue_depth{queue="answer"}'
        assert service.metrics()[depth] == 2
        try:
            service.ask("predict", 503, job=JOB, placement="A10")
            question: dict[str, Any] = {"job": JOB, "placement": "A10", "deadline_ms": 60_000}
            answer = service.ask("predict", **question)
            assert answer["basis"] == "analytical" and "Too many" in answer["warnings"][0]
            for route, rest in _ROUTES.items():
                assert service.ask(route, **rest, deadline_ms=60_000)
            service.ask("predict", 503, **question, allow_fallback=False)
            service.ask("predict", 503, **{**question, "job": NEW})
            counted = service.metrics()
            name = 'perfmodel_fallbacks_total{{reason="overload",route="/v1/{}"}}'
            assert [counted[name.format(r)] for r in ("predict", *_ROUTES)] == [1, 1, 1, 1, 1]
        finally:
            held.set()
        service.finish()
        assert service.metrics()[depth] == 0


#: One question for each route besides predict.
_ROUTES: dict[str, dict[str, Any]] = {
    "matrix": {"jobs": [JOB], "placements": ["A10", "2xA10"]},
    "curve": {"job": JOB, "accelerator": "A10", "counts": [1, 2]},
    "rank": {"job": JOB, "placements": ["A10", "T4"]},
    "explain": {"job": JOB, "placement": "A10"},
}


def _versions(route: str, answer: dict[str, Any]) -> set[str]:
    if route == "rank":
        ranked = answer["best"] + answer["left_out"]
        return {answer["model_version"], *(one["estimate"]["model_version"] for one in ranked)}
    return {answer["model_version"]}


def _about(route: str, job: dict[str, Any]) -> dict[str, Any]:
    """Return the question of a route about a job."""
    asked = {"job": job, "jobs": [job]}
    return {name: asked.get(name, value) for name, value in _ROUTES[route].items()}


def test_every_route_falls_back_and_catches_up(service: HeldService) -> None:
    cases = list(itertools.product(_ROUTES, (AT_ONCE_MS, A_WHILE_MS)))
    jobs = [{**JOB, "batch_size": size} for size in range(1, len(cases) + 1)]
    # All before anything is asked about: none is then predicted beforehand.
    for job in jobs:
        service.client.post("/v1/jobs", json={"job": job})
    service.finish()
    for job, (route, deadline_ms) in zip(jobs, cases, strict=True):
        service.model.gate.shut()
        question = _about(route, job)
        answer = service.ask(route, **question, deadline_ms=deadline_ms)
        assert _versions(route, answer) == {"roofline"}
        assert f"deadline_ms={deadline_ms}" in answer["warnings"][0]
        service.finish()
        # Long enough for a machine that is busy; what was asked for is in memory by now.
        full = service.ask(route, **question, deadline_ms=60_000)
        assert _versions(route, full) == {"held/1"}


def test_every_route_is_504_where_no_graph_is_known(service: HeldService) -> None:
    service.capture.gate.shut()
    for route in _ROUTES:
        question = {**_about(route, NEW), "deadline_ms": AT_ONCE_MS}
        if route == "matrix":
            answer = service.ask(route, **question)
            assert answer["status"] == [["error", "error"]]
            assert answer["errors"][0]["status"] == 504
        else:
            service.ask(route, 504, **question)


def test_a_matrix_is_full_where_it_can_be(service: HeldService) -> None:
    places = ["A10", "T4", "no such thing"]
    service.ask("matrix", jobs=[JOB], placements=places)
    service.client.post("/v1/jobs", json={"job": OTHER})
    service.model.gate.shut()
    service.capture.gate.shut()
    jobs = [OTHER, NEW, JOB, {"model": "timm/resnet50"}, KIND]
    answer = service.ask("matrix", jobs=jobs, placements=places, deadline_ms=A_WHILE_MS)
    rows = [row[:2] for row in answer["basis"]]
    assert rows[:4] == [["analytical"] * 2, [None] * 2, ["interpolated"] * 2, [None] * 2]
    assert answer["model_version"] == "held/1"
    (said,) = [text for text in answer["warnings"] if "deadline_ms" in text]
    assert "3 (0, 1, 4) of 5 jobs" in said
    problems = {(e["job"], e["placement"]): e["status"] for e in answer["errors"]}
    assert problems[1, None] == 504 and problems[3, None] == 422
    assert problems[None, 2] == 422
    assert [e["placement"] for e in answer["errors"]].count(2) == 1
    service.finish()
    full = service.ask("matrix", jobs=jobs, placements=places)
    assert [row[0] for row in full["basis"][:3]] == ["interpolated"] * 3
    assert full["samples_per_second"][2] == answer["samples_per_second"][2]
    # The held model says twice the analytical time.
    assert 2 * full["samples_per_second"][0][0] == pytest.approx(answer["samples_per_second"][0][0])


def test_rows_with_stored_observations_stay_measured(service: HeldService) -> None:
    seen = {"job": JOB, "placement": "A10", "batch_size": 64, "step_time_s": 0.01, "key": "a"}
    first = service.ask("predict", job=JOB, placement="A10")
    seen["step_time_s"] = 1.5 * first["step_time_s"]
    service.ask("observations", observations=[seen])
    question: dict[str, Any] = {"jobs": [JOB], "placements": ["A10"]}
    for _ in range(50):
        full = service.ask("matrix", **question, deadline_ms=60_000)
        hasty = service.ask("matrix", **question, deadline_ms=AT_ONCE_MS)
        assert full["basis"] == [["measured"]]
        if hasty["basis"] == full["basis"]:
            break
        # The counter of changes was looked at in between: the observations are to be read again.
    assert hasty == full

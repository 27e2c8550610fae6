"""Of a new job what matters is predicted before anybody asks, and no more than that."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from held_service import HeldModel, HeldService, held_service
from waiting import PATIENCE_S, until

from perfmodel.estimator.single.loading import LoadedModel
from service.dispatch import prefetch
from service.routes.accelerators import EXAMPLE
from service.versions import loaded_versions

OLD: dict[str, Any] = {"model": "zoo/old", "mode": "training", "batch_size": 8}
NEW: dict[str, Any] = {**OLD, "model": "zoo/newer"}
ASKED = ("A10", "8xA100-SXM4-80GB", "2xH100-SXM5-80GB")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[HeldService]:
    with held_service(tmp_path) as service:
        yield service


def ask_about_old(service: HeldService) -> None:
    """Let a scheduler ask about a job on what it has."""
    for placement in ASKED:
        service.ask("predict", job=OLD, placement=placement)
        # Else what is asked for next might be worked out beforehand at the same time.
        service.finish()


def register(service: HeldService, job: dict[str, Any]) -> str:
    response = service.client.post("/v1/jobs", json={"job": job})
    assert response.status_code == 201, response.text
    ref: str = response.json()["ref"]
    return ref


def test_the_first_question_about_a_registered_job_runs_no_network(service: HeldService) -> None:
    ask_about_old(service)
    ref = register(service, NEW)
    assert service.model.calls == len(ASKED) + 1  # all that is asked about, in one call
    for placement in ("A10", "A100-SXM4-80GB", "4xA100-SXM4-80GB", "H100-SXM5-80GB"):
        for job in (NEW, ref, {"ref": ref}):
            assert service.ask("predict", job=job, placement=placement)["basis"] == "interpolated"
    assert service.model.calls == len(ASKED) + 1
    service.finish()
    service.ask("predict", job=NEW, placement="V100-SXM2-16GB")  # nobody asked about it so far
    assert service.model.calls == len(ASKED) + 2


def test_what_is_asked_about_without_registration_is_worked_out_too(service: HeldService) -> None:
    ask_about_old(service)
    service.ask("predict", job=NEW, placement="A10")
    service.finish()
    calls = service.model.calls
    for placement in ASKED:
        service.ask("predict", job=NEW, placement=placement)
    assert service.model.calls == calls


def test_own_and_priced_accelerators_matter_unasked(service: HeldService) -> None:
    put = service.client.put("/v1/accelerators/Own-32GB", json=EXAMPLE)
    priced = service.client.put("/v1/prices/A10", json={"per_hour": 1.5})
    assert put.status_code in (200, 201), put.text
    assert priced.status_code in (200, 201), priced.text
    names = [spec.name for spec in service.dispatcher.prefetch.accelerators()]
    assert names == ["Own-32GB", "A10"]
    register(service, NEW)
    service.finish()
    calls = service.model.calls
    for placement in ("Own-32GB", "A10"):
        service.ask("predict", job=NEW, placement=placement)
    assert service.model.calls == calls


def test_another_version_of_the_model_takes_over_what_was_worked_out(
    service: HeldService, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_about_old(service)
    register(service, NEW)
    service.finish()
    newer = HeldModel(version="default/2", times=3)
    loaded = LoadedModel(model=newer, models=({"model": "default/2", "serving": True},))
    monkeypatch.setattr(loaded_versions, "load_model", lambda *_: loaded)
    service.dispatcher.models.reload()
    calls = newer.calls
    for placement in ASKED:
        answer = service.ask("predict", job=NEW, placement=placement)
        assert answer["model_version"] == "default/2"
    assert newer.calls == calls
    # It has been asked about the same accelerators by now; the jobs to come profit as before.
    register(service, {**NEW, "model": "zoo/newest"})
    service.finish()
    calls = newer.calls
    service.ask("predict", job={**NEW, "model": "zoo/newest"}, placement="H100-SXM5-80GB")
    assert newer.calls == calls


def test_nothing_is_worked_out_while_somebody_waits_for_an_answer(service: HeldService) -> None:
    ask_about_old(service)
    calls = service.model.calls
    held = threading.Event()
    service.dispatcher.threads.submit(held.wait, PATIENCE_S)
    try:
        register(service, NEW)
        until(lambda: service.metrics()['perfmodel_queue_depth{queue="foresight"}'] == 1)
        time.sleep(0.05)
        assert service.model.calls == calls
    finally:
        held.set()
    service.finish()
    assert service.model.calls == calls + 1


def test_what_waits_and_what_is_worked_out_is_bounded(
    service: HeldService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefetch, "MOST_ACCELERATORS", 2)
    ask_about_old(service)
    assert [one.name for one in service.dispatcher.prefetch.accelerators()] == [
        "H100-SXM5-80GB", "A100-SXM4-80GB",
    ]  # fmt: skip
    held = threading.Event()
    service.dispatcher.threads.submit(held.wait, PATIENCE_S)
    try:
        prepared = service.dispatcher.models.serving.prepare
        jobs = [
            service.dispatcher.models.serving.read_job({**NEW, "batch_size": n}) for n in (2, 4)
        ]
        for _ in range(3):
            for job in jobs:
                service.dispatcher.prefetch.add(prepared(job, {"model": "zoo/newer"}))
        assert service.dispatcher.prefetch.count == len(jobs)
    finally:
        held.set()
    service.finish()
    assert service.dispatcher.prefetch.count == 0

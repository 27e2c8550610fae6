"""What works in the background leaves the interpreter to a loop that answers without a pause."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from held_service import HeldService, held_service

from service.dispatch import dispatcher
from service.dispatch.dispatcher import Dispatcher, LoopAnswers
from service.feedback import drift_keeper
from service.feedback.drift_keeper import DriftKeeper

JOB: dict[str, Any] = {"model": "zoo/old", "mode": "training", "batch_size": 8}


class Steady(LoopAnswers):
    """A loop that answers without a pause until it is told to end."""

    are_many = True

    @property
    def count(self) -> int:
        return 16 if self.are_many else 0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[HeldService]:
    with held_service(tmp_path) as service:
        yield service


def test_few_answers_and_those_of_a_while_ago_are_not_many(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(dispatcher, "monotonic", lambda: now.s)
    answers = LoopAnswers()
    for _ in range(63):
        answers.note()
    assert answers.count == 0
    answers.note()
    assert answers.count
    now.s += 0.21
    assert answers.count == 0
    # One now and then is never many, however long that goes on.
    for _ in range(100):
        now.s += 0.01
        answers.note()
        assert answers.count == 0


def test_what_the_loop_answers_is_noted_and_what_a_thread_does_is_not(
    service: HeldService, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[None] = []
    monkeypatch.setattr(service.dispatcher.loop_answers, "note", lambda: noted.append(None))
    service.ask("predict", job=JOB, placement="A10")
    assert not noted
    service.ask("predict", job=JOB, placement="A10")
    service.ask("predict", job=JOB, placement="4xA10")
    assert len(noted) == 2


def test_no_job_is_worked_out_beforehand_while_the_loop_answers(service: HeldService) -> None:
    service.ask("predict", job=JOB, placement="A10")
    service.finish()
    calls = service.model.calls
    service.dispatcher.loop_answers = steady = Steady()
    new = {**JOB, "model": "zoo/newer"}
    service.client.post("/v1/jobs", json={"job": new}).raise_for_status()
    time.sleep(0.15)
    assert service.model.calls == calls
    steady.are_many = False
    service.finish()
    assert service.model.calls == calls + 1


class Waits:
    """A clock, and an event that never comes: whoever waits for it moves the clock on."""

    def __init__(self) -> None:
        self.waited_s, self.is_over = 0.0, False

    def monotonic(self) -> float:
        return self.waited_s

    def wait(self, some_s: float) -> bool:
        self.waited_s += some_s
        return self.is_over

    def is_set(self) -> bool:
        return self.is_over


@pytest.mark.parametrize(
    ("many", "threads", "longest_s"),
    [(False, 0, 0.0), (True, 0, drift_keeper._BESIDE_LOOP_S), (True, 1, 0.5), (False, 1, 0.5)],
)
def test_a_comparison_waits_as_long_as_others_need(
    service: HeldService,
    monkeypatch: pytest.MonkeyPatch,
    many: bool,
    threads: int,
    longest_s: float,
) -> None:
    steady = Steady()
    steady.are_many = many
    asked = SimpleNamespace(
        threads=SimpleNamespace(count=threads),
        loop_answers=steady,
        state=service.dispatcher.state,
        models=service.dispatcher.models,
    )
    keeper = DriftKeeper(cast(Dispatcher, asked), None, poll_s=0.0, share=0.25)
    waits = Waits()
    monkeypatch.setattr(keeper, "_ended", waits)
    monkeypatch.setattr(drift_keeper, "time", SimpleNamespace(monotonic=waits.monotonic))
    keeper._let_others_first()
    assert longest_s <= waits.waited_s < longest_s + 2 * drift_keeper._LOOK_S
    waits.waited_s, waits.is_over = 0.0, True
    keeper._let_others_first()
    assert waits.waited_s == 0.0  # whoever is stopped waits for nobody

"""Captures without end hold up nobody but those who wait for captures."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import httpx
import pytest
from guarded_service import Guarded, guarded_service
from held_service import HeldService, held_service
from waiting import PATIENCE_S, until

from perfmodel.errors import BusyError
from perfmodel.estimator.captures.turns import Turns
from perfmodel.estimator.jobs.capture_terms import TERMS, CaptureTerms
from service.answering.thread_pool import ThreadPool
from service.http.errors import OverloadedError, TooManyWaitingError
from service.metrics.registry import Metrics

KNOWN = {"model": "timm/known", "mode": "training", "batch_size": 8}
MOST = 6


def endless(number: int) -> dict[str, Any]:
    return {"model": f"timm/endless-{'x' * number}", "mode": "training", "batch_size": 8}


def test_known_jobs_lists_and_observations_are_never_behind_captures(tmp_path: Path) -> None:
    with held_service(tmp_path, max_waiting=4, max_waiting_captures=MOST) as service:
        service.ask("jobs", 201, job=KNOWN)
        service.ask("predict", job=KNOWN, placement="A10")
        service.finish()
        service.capture.gate.shut()
        with ThreadPoolExecutor(MOST) as attackers:
            asked = []
            for number in range(MOST):  # one by one: few may wait to be told from known jobs
                asked.append(_attack(attackers, service, number))
                _await_depth(service, "capture", number + 1)
            # On a card that the model has not seen the job on: in a thread, not from memory.
            assert service.ask("predict", job=KNOWN, placement="T4")["throughput"]
            assert service.ask("matrix", jobs=[KNOWN], placements=["A10", "L4"])
            seen = {"job": KNOWN, "placement": "A10", "step_time_s": 0.01}
            assert service.ask("observations", observations=[seen])["observations"]
            for path in ("/v1/jobs", "/v1/graphs", "/v1/observations", "/v2/health/ready"):
                assert service.client.get(path).status_code == 200
            # One more is told at once that there is no room.
            refused = service.client.post(
                "/v1/predict", json={"job": endless(MOST), "placement": "A10"}
            )
            assert refused.status_code == 503 and refused.headers["retry-after"]
            service.capture.gate.open()
            assert {response.result().status_code for response in asked} == {200}


def _attack(
    attackers: ThreadPoolExecutor, service: HeldService, number: int
) -> Future[httpx.Response]:
    question = {"job": endless(number), "placement": "A10"}
    if number % 2:  # of those who wait no longer than this, too
        question["deadline_ms"] = 60_000
    return attackers.submit(service.client.post, "/v1/predict", json=question)


def _await_depth(service: HeldService, name: str, depth: int) -> None:
    until(lambda: service.metrics()[f'perfmodel_queue_depth{{queue="{name}"}}'] >= depth)


def test_background_rounds_do_not_wait_for_captures(tmp_path: Path) -> None:
    with held_service(tmp_path) as service:
        service.ask("jobs", 201, job=KNOWN)
        service.finish()
        service.capture.gate.shut()
        service.ask("predict", 504, job=endless(1), placement="A10", deadline_ms=1)
        _await_depth(service, "background_capture", 1)
        # The known job is worked out in a later round all the same.
        question = {"job": KNOWN, "placement": "H100-SXM5-80GB"}
        service.ask("predict", **question, deadline_ms=1)
        until(lambda: service.ask("predict", **question, deadline_ms=1)["model_version"]
              == "held/1")  # fmt: skip
        service.capture.gate.open()


def _on_terms_of(caller: str) -> Any:
    context = copy_context()
    context.run(TERMS.set, CaptureTerms(caller=caller))
    return context.run


def test_keys_take_turns_and_one_key_has_half_of_the_room() -> None:
    threads = ThreadPool("some", Metrics(), workers=1, most=8)
    held, order = threading.Event(), []
    as_one, as_other = _on_terms_of("one"), _on_terms_of("other")
    first = as_one(threads.submit, held.wait)
    rest = [as_one(threads.submit, order.append, f"one {n}") for n in range(3)]
    with pytest.raises(TooManyWaitingError):
        as_one(threads.submit, order.append, "one too many")
    rest += [as_other(threads.submit, order.append, f"other {n}") for n in range(4)]
    with pytest.raises(OverloadedError):
        _on_terms_of("third")(threads.submit, order.append, "too many in all")
    held.set()
    for future in (first, *rest):
        future.result(PATIENCE_S)
    assert order == [
        "other 0", "one 0", "other 1", "one 1", "other 2", "one 2", "other 3",
    ]  # fmt: skip
    assert threads.count == 0
    threads.close()


def test_nobody_waits_for_ever_for_work_that_stops_an_iteration() -> None:
    threads = ThreadPool("some", Metrics(), workers=1, most=8)
    nothing: list[int] = []

    async def wait() -> None:
        await asyncio.wait_for(threads.run(lambda: next(iter(nothing))), PATIENCE_S)

    with pytest.raises(RuntimeError, match="StopIteration") as raised:
        asyncio.run(wait())
    assert isinstance(raised.value.__cause__, StopIteration)
    threads.close()


def test_one_caller_never_has_the_last_process() -> None:
    turns = Turns(2, most_wait_s=0.05)
    with turns.turn("greedy") as first:
        with pytest.raises(BusyError, match="Ask again later"), turns.turn("greedy"):
            pass
        with turns.turn("other") as second:
            assert {first, second} == {0, 1}
        with turns.turn("third"):
            pass
    with turns.turn("greedy") as again:
        assert again == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield from guarded_service(tmp_path_factory)


def test_a_key_that_brings_too_much_is_told_429(guarded: Guarded) -> None:
    dispatcher = guarded.app.state.dispatcher
    key_id = guarded.tokens["predict"].split("_")[1]
    held = threading.Event()
    half = guarded.app.state.settings.max_waiting // 2
    waiting = [_on_terms_of(key_id)(dispatcher.threads.submit, held.wait) for _ in range(half)]
    try:
        question = {"job": KNOWN, "placement": "A10"}
        refused = guarded.client.post(
            "/v1/predict", json=question, headers=guarded.bearer("predict")
        )
        assert refused.status_code == 429, refused.text
        assert refused.headers["retry-after"]
    finally:
        held.set()
    for future in waiting:
        future.result(PATIENCE_S)


def test_a_budget_is_stated_and_what_was_taken_is_told(guarded: Guarded) -> None:
    question = {"job": KNOWN, "placement": "A10"}
    headers = guarded.bearer("predict")
    wrong = guarded.client.post(
        "/v1/predict", json=question, headers={**headers, "Perfmodel-Capture-Budget": "hours=3"}
    )
    assert wrong.status_code == 422 and "time_s=NUMBER" in wrong.json()["detail"]
    too_much = guarded.client.post(
        "/v1/predict", json=question, headers={**headers, "Perfmodel-Capture-Budget": "time_s=999"}
    )
    assert too_much.status_code == 422 and "at most" in too_much.json()["detail"]

"""What nobody waits for any more stands in nobody's way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any, Never

import orjson
import pytest
from held_service import HeldService, held_service, one_or_another
from starlette.requests import ClientDisconnect
from waiting import PATIENCE_S, until

from perfmodel.errors import InvalidInputError, NotInTimeError
from perfmodel.estimator.jobs.capture_terms import (
    TERMS,
    AbandonedError,
    CaptureBudget,
    CaptureTerms,
    go_on,
)
from perfmodel.estimator.jobs.captured_step import CapturedStep
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.graph.job import Job
from service.answering.lanes import Lanes, attended_lanes, unattended_lanes
from service.answering.questions import Options
from service.answering.request_terms import RequestTerms, while_connected
from service.answering.thread_pool import ThreadPool
from service.dispatch.background_rounds import BackgroundRounds
from service.dispatch.deadlines import Deadlines
from service.http.errors import CLIENT_CLOSED_REQUEST, OverloadedError
from service.metrics.registry import Metrics

#: More than have a process and wait.
MOST, MANY = 2, 6


def job(number: int) -> dict[str, Any]:
    return {"model": f"timm/new-{'x' * number}", "mode": "training", "batch_size": 8}


def depth(service: HeldService, queue: str = "capture") -> float:
    return service.metrics()[f'perfmodel_queue_depth{{queue="{queue}"}}']


def hang_up(service: HeldService, path: str, body: bytes, kind: bytes = b"application/json") -> int:
    """Ask, hang up once the question waits for a capture, and return the status."""
    sent: list[int] = []

    async def asked() -> None:
        before = depth(service)
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Any:
            if messages:
                return messages.pop()
            await asyncio.to_thread(until, lambda: depth(service) > before)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if "status" in message:
                sent.append(message["status"])

        await service.app(_scope(path, body, kind), receive, send)

    asyncio.run(asked())
    return sent[0]


def _scope(path: str, body: bytes, kind: bytes) -> dict[str, Any]:
    return {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1",
        "headers": [
            (b"host", b"localhost"), (b"content-type", kind),
            (b"content-length", str(len(body)).encode()),
        ],
        "client": ("127.0.0.1", 9), "server": ("127.0.0.1", 8000), "state": {},
    }  # fmt: skip


@pytest.mark.parametrize("deadline", [{}, {"deadline_ms": 600_000}], ids=["", "deadline"])
@pytest.mark.parametrize("path", ["/v1/predict", "/v1/explain"])
def test_questions_of_callers_who_hung_up_leave_the_queue(
    tmp_path: Path, path: str, deadline: dict[str, Any]
) -> None:
    with held_service(tmp_path, max_waiting_captures=MOST) as service:
        service.capture.gate.shut()
        for number in range(MANY):
            question = {"job": job(number), "placement": "A10", **deadline}
            assert hang_up(service, path, orjson.dumps(question)) == CLIENT_CLOSED_REQUEST
            # What has a process is not taken it away from before somebody needs that.
            until(lambda: depth(service) <= 1)
        service.capture.gate.open()
        assert service.ask("predict", job=job(MANY), placement="A10")["throughput"]


def test_uploads_of_callers_who_hung_up_leave_the_queue(tmp_path: Path) -> None:
    with (
        held_service(tmp_path, capture_processes=1, capture_wait_s=PATIENCE_S) as service,
        service.app.state.turns.turn("another"),
    ):
        for _ in range(3):
            status = hang_up(service, "/v1/graphs", b"x", b"application/octet-stream")
            assert status == CLIENT_CLOSED_REQUEST
            # The answer is sent before its thread is back, which the next would be counted for.
            until(lambda: not depth(service))


def test_questions_past_their_deadline_leave_the_queue(tmp_path: Path) -> None:
    with held_service(tmp_path, max_waiting_captures=MOST) as service:
        service.capture.gate.shut()
        for number in range(MANY):
            service.ask("predict", 504, job=job(number), placement="A10", deadline_ms=60)
            until(lambda: depth(service) <= 1)
        assert until(lambda: depth(service, "background_capture"))
        # They were worked on meanwhile, and are still there for who asks again.
        service.finish()
        for number in range(MANY):
            answer = service.ask("predict", job=job(number), placement="A10", deadline_ms=1)
            assert answer["throughput"]


def test_what_one_of_two_gives_up_goes_on_for_the_other(tmp_path: Path) -> None:
    with held_service(tmp_path) as service, ThreadPoolExecutor(1) as other:
        captured: list[Job] = []

        def counting(job: Job) -> CapturedStep:
            captured.append(job)
            return one_or_another(job)

        service.capture.capture = counting
        service.capture.gate.shut()
        question: dict[str, Any] = {"job": job(1), "placement": "A10"}
        # As bodies they are two questions, of one job: its capture is shared.
        patient = other.submit(service.ask, "predict", **question, deadline_ms=600_000)
        until(lambda: depth(service))
        service.ask("predict", 504, **question, deadline_ms=60)
        service.capture.gate.open()
        assert patient.result(PATIENCE_S)["model_version"] == "held/1"
        service.finish()
        assert len(captured) == 1


def test_who_comes_for_what_nobody_waits_for_is_answered(tmp_path: Path) -> None:
    with held_service(tmp_path) as service:
        service.capture.gate.shut()
        question: dict[str, Any] = {"job": job(1), "placement": "A10"}
        service.ask("predict", 504, **question, deadline_ms=1)
        until(lambda: depth(service, "background_capture"))
        threading.Timer(0.5, service.capture.gate.open).start()
        assert service.ask("predict", **question, deadline_ms=600_000)["model_version"] == "held/1"


def test_what_has_not_begun_gives_its_room_to_others() -> None:
    threads = ThreadPool("some", Metrics(), workers=1, most=2)
    held = threading.Event()
    first = threads.submit(held.wait)
    for _ in range(5):
        assert threads.submit(pytest.fail, "nobody waits for it").cancel()
    last = threads.submit(lambda: "answered")
    held.set()
    assert first.result(PATIENCE_S) and last.result(PATIENCE_S) == "answered"
    until(lambda: not threads.count)
    threads.close()


def for_ever() -> Never:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        go_on()
    pytest.fail("it went on")


def test_what_computes_ends_where_its_caller_has_gone() -> None:
    threads = ThreadPool("some", Metrics(), workers=1, most=2)

    async def hanging_up() -> None:
        asked = asyncio.create_task(threads.run(for_ever))
        await asyncio.sleep(0.05)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await threads.run(lambda: "answered") == "answered"

    asyncio.run(hanging_up())
    threads.close()


def test_what_is_cancelled_computes_on_until_it_is_given_up() -> None:
    threads = ThreadPool("some", Metrics(), workers=1, most=2)
    work = threads.submit(for_ever)
    until(lambda: not work.cancel() and threads.count)
    with pytest.raises(TimeoutError):
        work.result(0.05)
    work.give_up()
    with pytest.raises(AbandonedError):
        work.result(PATIENCE_S)
    threads.close()


def test_what_computes_for_longer_than_it_may_is_refused() -> None:
    threads = ThreadPool("some", Metrics(), workers=1, most=2, most_s=0.05)
    with pytest.raises(InvalidInputError, match=r"0\.05 s of computing"):
        threads.submit(for_ever).result(PATIENCE_S)
    # Each has that time for itself.
    assert threads.submit(go_on).result(PATIENCE_S) is None
    threads.close()


JOB_TYPES = [{"job_type": f"type-{n}", "mode": "training", "batch_size": 8} for n in range(50)]
SPLIT = [{"nodes": [{"accelerator": "A10", "count": n + 2}], "fraction": 0.5} for n in range(50)]


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("matrix", {"jobs": JOB_TYPES, "placements": ["A10"]}),
        ("matrix", {"jobs": [job(1)], "placements": SPLIT}),
        ("rank", {"job": JOB_TYPES[0], "placements": SPLIT}),
        (
            "kernels",
            {
                "kernels": [{"op": "all_reduce", "shape": {"size_bytes": 1e6, "ranks": 8}}] * 50,
                "accelerators": ["A10"],
            },
        ),
    ],
    ids=["job types", "cells", "ranking", "kernels"],
)
def test_a_question_may_take_so_much_of_a_core(
    tmp_path: Path, path: str, question: dict[str, Any]
) -> None:
    with held_service(tmp_path, answer_time_s=1e-4) as service:
        problem = service.ask(path, 422, **question)
        assert "0.0001 s of computing" in problem["detail"]


def test_a_shipped_graph_is_never_behind_captures() -> None:
    lanes = attended_lanes(Metrics(), most=8, most_captures=2)
    held = threading.Event()
    captures = [lanes.captures.submit(held.wait) for _ in range(2)]
    library = GraphLibrary(capture=one_or_another)
    try:
        shipped = Job(model="timm/resnet50", batch_size=7)
        assert lanes.submit(library.step, shipped).result(PATIENCE_S).graph
        with pytest.raises(OverloadedError):
            lanes.submit(library.step, Job(model="timm/new")).result(PATIENCE_S)
    finally:
        held.set()
        for future in captures:
            future.result(PATIENCE_S)
        lanes.close()


def in_rounds(action: Callable[[BackgroundRounds, ThreadPool], Awaitable[None]]) -> None:
    """Run something with rounds beside captures that somebody waits for, one at a time."""

    async def running() -> None:
        threads, attended = (ThreadPool(name, Metrics(), workers=1, most=8) for name in "ab")
        later = unattended_lanes(Metrics(), attended, places=1)
        try:
            await action(BackgroundRounds(threads, later), attended)
        finally:
            for each in (threads, attended, later):
                each.close()

    asyncio.run(running())


def test_unattended_captures_wait_until_places_are_left() -> None:
    async def asking(rounds: BackgroundRounds, attended: ThreadPool) -> None:
        held, ended = threading.Event(), []
        library = GraphLibrary(capture=one_or_another)
        first: Future[Any] = attended.submit(held.wait)
        first.add_done_callback(lambda done: ended.append("attended"))
        later = rounds.add(lambda: library.step(Job(model="timm/new")), None)
        assert later is not None
        later.add_done_callback(lambda done: ended.append("unattended"))
        asyncio.get_running_loop().call_later(1.0, held.set)
        assert (await asyncio.wrap_future(later)).graph
        assert ended == ["attended", "unattended"]

    in_rounds(asking)


def test_one_key_brings_half_of_what_nobody_waits_for() -> None:
    async def asking(rounds: BackgroundRounds, attended: ThreadPool) -> None:
        def added(caller: str, many: int) -> list[Future[Any]]:
            context = copy_context()
            context.run(TERMS.set, CaptureTerms(caller=caller))
            futures = [context.run(rounds.add, lambda: 1, None) for _ in range(many)]
            return [future for future in futures if future is not None]

        taken_in = added("one", 2_000)
        assert len(taken_in) == 512
        assert rounds.forget(taken_in[0]) and len(added("one", 1)) == 1
        assert len(added("other", 100)) == 100

    in_rounds(asking)


def test_who_hangs_up_ends_nothing_that_another_was_promised() -> None:
    begun, ended = threading.Event(), threading.Event()

    def computing() -> str:
        begun.set()
        while not ended.is_set():
            go_on()
        return "answered"

    async def asking(rounds: BackgroundRounds, attended: ThreadPool) -> None:
        deadlines = Deadlines(Lanes(attended), rounds)
        with pytest.raises(NotInTimeError, match="ask again"):
            await deadlines.wait(_within(0.0), "asked", computing)
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        await hung_up(deadlines, computing)
        await asyncio.sleep(0.05)
        assert deadlines.under_way == 1
        asyncio.get_running_loop().call_later(0.05, ended.set)
        assert await deadlines.wait(_within(PATIENCE_S), "asked", pytest.fail) == "answered"

    in_rounds(asking)


def test_what_computes_before_a_deadline_ends_with_the_last_who_waits() -> None:
    async def asking(rounds: BackgroundRounds, attended: ThreadPool) -> None:
        deadlines = Deadlines(Lanes(attended), rounds)
        await hung_up(deadlines, for_ever, begun=lambda: attended.count > 0)
        await asyncio.to_thread(until, lambda: not attended.count)
        assert deadlines.under_way == 0

    in_rounds(asking)


def test_who_comes_for_what_was_just_given_up_has_it_go_on() -> None:
    begun, ended = threading.Event(), threading.Event()
    calls: list[None] = []

    def computing() -> str:
        calls.append(None)
        begun.set()
        ended.wait(PATIENCE_S)
        go_on()
        return "answered"

    async def asking(rounds: BackgroundRounds, attended: ThreadPool) -> None:
        deadlines = Deadlines(Lanes(attended), rounds)
        await hung_up(deadlines, computing, begun=begun.is_set)
        asyncio.get_running_loop().call_later(0.05, ended.set)
        assert await deadlines.wait(_within(PATIENCE_S), "asked", computing) == "answered"
        assert len(calls) == 1

    in_rounds(asking)


async def hung_up(
    deadlines: Deadlines, full: Callable[[], Any], begun: Callable[[], bool] = lambda: True
) -> None:
    """Ask, and hang up once something has begun."""

    async def gone() -> Any:
        await asyncio.to_thread(until, begun)
        return {"type": "http.disconnect"}

    async def unsent(message: Any) -> None:
        pytest.fail(f"nobody is there for {message}")

    async def asking(scope: Any, receive: Any, send: Any) -> None:
        await deadlines.wait(_within(PATIENCE_S), "asked", full)

    scope = {"type": "http", "method": "POST", "headers": []}
    with pytest.raises(ClientDisconnect):
        await RequestTerms(asking, most=CaptureBudget())(scope, gone, unsent)


def _within(seconds: float) -> Options:
    return Options(until_s=time.monotonic() + seconds, deadline_ms=1e3 * seconds)


def test_a_caller_is_forgotten_with_its_request() -> None:
    # Both requests run in one task, as with a client in the process of the service.
    async def app(scope: Any, receive: Any, send: Any) -> None:
        work: Future[int] = Future()
        asyncio.get_running_loop().call_later(0.02, work.set_result, 1)
        await send(await while_connected(work))

    async def asked() -> list[int]:
        answers: list[int] = []

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            answers.append(message)

        for method in ("POST", "GET"):
            scope = {"type": "http", "method": method, "headers": []}
            await RequestTerms(app, most=CaptureBudget())(scope, receive, send)
            await asyncio.sleep(0)
        return answers

    assert asyncio.run(asked()) == [1, 1]

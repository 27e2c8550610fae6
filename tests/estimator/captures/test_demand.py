"""Captures go on for those who wait for them."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from typing import Any

import pytest
from held_service import one_or_another
from waiting import PATIENCE_S, until

from perfmodel.estimator.captures.capture_child import CaptureChild, Captured
from perfmodel.estimator.captures.capture_pool import CapturePool
from perfmodel.estimator.captures.turns import Turns
from perfmodel.estimator.jobs.capture_terms import (
    IS_WANTED,
    AbandonedError,
    CaptureBudget,
    CaptureUse,
)
from perfmodel.estimator.jobs.graph_library import SharedWork
from perfmodel.graph.job import Job

MLP = Job(model="zoo/mlp", batch_size=4, model_kwargs={"num_layers": 3})


class Asking:
    """Does something in a thread for somebody who may leave."""

    def __init__(self, threads: ThreadPoolExecutor, action: Any, *args: Any) -> None:
        self.waits = True
        context = copy_context()
        context.run(IS_WANTED.set, lambda: self.waits)
        self.future: Future[Any] = threads.submit(context.run, action, *args)

    def is_abandoned(self) -> bool:
        return isinstance(self.future.exception(PATIENCE_S), AbandonedError)


def test_who_left_waits_for_no_process() -> None:
    turns = Turns(1, most_wait_s=PATIENCE_S)

    def turn() -> int:
        with turns.turn("one") as place:
            return place

    with ThreadPoolExecutor() as threads:
        with turns.turn("other"):
            left, waits = Asking(threads, turn), Asking(threads, turn)
            until(lambda: turns.has_waiting)
            left.waits = False
            assert left.is_abandoned() and not waits.future.done()
        assert waits.future.result(PATIENCE_S) == 0
    assert not turns.has_waiting


def test_several_who_ask_for_one_thing_share_its_work() -> None:
    shared: SharedWork[str] = SharedWork()
    begun, go_on, made = threading.Event(), threading.Event(), []

    def work() -> str:
        made.append(IS_WANTED.get())
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return "graph"

    with ThreadPoolExecutor() as threads:
        first = Asking(threads, shared.run, "job", work)
        begun.wait(PATIENCE_S)
        second, third = (Asking(threads, shared.run, "job", work) for _ in range(2))
        until(lambda: len(shared._under_way["job"].wanted) == 3)
        second.waits = False
        assert second.is_abandoned()
        # Who began has left too, and it is wanted still: by the third.
        first.waits = False
        assert made[0]()
        go_on.set()
        assert first.future.result(PATIENCE_S) == third.future.result(PATIENCE_S) == "graph"
        third.waits = False
        assert not made[0]() and len(made) == 1


def test_what_fails_for_one_is_tried_by_the_next() -> None:
    shared: SharedWork[str] = SharedWork()
    begun, go_on = threading.Event(), threading.Event()

    def failing() -> str:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        raise ValueError

    with ThreadPoolExecutor() as threads:
        first = threads.submit(shared.run, "job", failing)
        begun.wait(PATIENCE_S)
        second = threads.submit(shared.run, "job", lambda: "graph")
        until(lambda: len(shared._under_way["job"].wanted) == 2)
        go_on.set()
        assert isinstance(first.exception(PATIENCE_S), ValueError)
        assert second.result(PATIENCE_S) == "graph"


def test_a_child_that_shall_not_go_on_is_ended() -> None:
    with closing(CaptureChild()) as child:
        with pytest.raises(AbandonedError):
            child.capture(MLP, CaptureBudget(), lambda: False)
        assert child._child is None


def test_an_abandoned_capture_ends_where_others_wait_for_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("perfmodel.estimator.captures.capture_pool._WORTH_A_START_S", 0.0)
    asked: list[Any] = []
    go_on = threading.Event()
    captured = Captured(one_or_another(MLP), CaptureUse(time_s=1.0, memory_bytes=1, nodes=1))

    def capture(child: CaptureChild, job: Job, budget: Any, goes_on: Any) -> Captured:
        asked.append(goes_on)
        until(lambda: go_on.is_set() or not goes_on())
        if go_on.is_set():
            return captured
        raise AbandonedError

    monkeypatch.setattr(CaptureChild, "capture", capture)
    pool = CapturePool(Turns(1, most_wait_s=PATIENCE_S))
    with ThreadPoolExecutor() as threads:
        first = Asking(threads, pool, MLP)
        until(lambda: asked)
        first.waits = False
        assert asked[0]()  # nobody needs its place
        second = Asking(threads, pool, MLP)
        assert first.is_abandoned()
        until(lambda: len(asked) == 2)
        third = Asking(threads, pool, MLP)
        second.waits = False
        assert second.is_abandoned()
        until(lambda: len(asked) == 3)
        # It is waited for, whoever else waits.
        last = Asking(threads, pool, MLP)
        assert asked[2]()
        third.waits = last.waits = False
        assert last.is_abandoned()
        assert asked[2]()
        go_on.set()
        assert third.future.result(PATIENCE_S)


def test_a_shipped_graph_needs_no_place_of_captures() -> None:
    turns = Turns(1, most_wait_s=0.0)
    with turns.turn("other"), closing(CapturePool(turns)) as pool:
        assert pool(Job(model="timm/resnet50", batch_size=7)).graph.nodes

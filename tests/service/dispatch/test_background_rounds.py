from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from waiting import PATIENCE_S

from service.answering.lanes import unattended_lanes
from service.answering.thread_pool import ThreadPool
from service.dispatch.background_rounds import BackgroundRounds, Preparation
from service.http.errors import OverloadedError
from service.metrics.registry import Metrics


def run(action: Callable[[BackgroundRounds], Awaitable[None]], *, most: int = 8) -> None:
    """Run something with a place for what is worked on later."""

    async def running() -> None:
        threads = ThreadPool("later", Metrics(), workers=1, most=most)
        later = unattended_lanes(Metrics(), threads, places=1)
        try:
            await action(BackgroundRounds(threads, later))
        finally:
            threads.close()
            later.close()

    asyncio.run(running())


def some(future: Future[Any] | None) -> asyncio.Future[Any]:
    """Return a future that there must be, to be awaited."""
    assert future is not None
    return asyncio.wrap_future(future)


def test_questions_of_a_round_are_prepared_together_and_answered_one_by_one() -> None:
    prepared: list[Sequence[Any]] = []

    def prepare(questions: Sequence[Any]) -> None:
        prepared.append(list(questions))
        raise ZeroDivisionError("one of them is wrong, and nobody minds")

    async def asking(later: BackgroundRounds) -> None:
        first = some(later.add(lambda: 1 + 1, Preparation(prepare, "first")))
        wrong = some(later.add(lambda: 1 // 0, Preparation(prepare, "second")))
        alone = some(later.add(lambda: 3, None))
        assert (await first, await alone) == (2, 3)
        with pytest.raises(ZeroDivisionError):
            await wrong

    run(asking)
    assert prepared == [["first", "second"]]


def test_a_second_round_follows_the_first() -> None:
    async def asking(later: BackgroundRounds) -> None:
        assert await some(later.add(lambda: 1, None)) == 1
        assert await some(later.add(lambda: 2, None)) == 2

    run(asking)


def test_a_question_is_taken_back_until_its_round_begins() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def holding() -> bool:
        begun.set()
        return go_on.wait(PATIENCE_S)

    async def asking(later: BackgroundRounds) -> None:
        taken = later.add(lambda: pytest.fail("it was taken back"), None)
        assert taken is not None
        assert later.forget(taken) and not later.forget(taken)
        assert taken.cancelled()
        held = later.add(holding, None)
        await asyncio.to_thread(begun.wait, 60.0)
        assert held is not None and not later.forget(held)
        # Nor does anybody end it who waited for it meanwhile and went.
        held.cancel()
        go_on.set()
        assert await asyncio.wrap_future(held)

    run(asking)


def test_where_there_is_no_room_that_is_the_answer() -> None:
    async def asking(later: BackgroundRounds) -> None:
        with pytest.raises(OverloadedError, match="Try again"):
            await some(later.add(lambda: 1, None))

    run(asking, most=0)

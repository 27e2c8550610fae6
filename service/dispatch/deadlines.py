"""Wait for an answer as long as its caller does, and see to it that it comes for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

from perfmodel.errors import NotInTimeError
from service.answering.lanes import Lanes, ThreadPool, note_failure
from service.dispatch.background_rounds import BackgroundRounds, Preparation
from service.dispatch.options import Options

T = TypeVar("T")

#: Left for putting the answer together and sending it.
_RESERVE_S = 0.0015
#: No question that needs a thread is answered in less; whoever waits no longer is not kept waiting.
_LEAST_S = 0.010


class Deadlines:
    """Runs what answers in full, no longer than the caller waits; it then goes on unattended.

    Parameters
    ----------
    background : ThreadPool
        Where it runs, with others, if nobody waits for it from the start.
    """

    def __init__(self, threads: Lanes, background: ThreadPool) -> None:
        self._threads = threads
        self._rounds = BackgroundRounds(background, threads.captures)
        self._under_way: dict[Hashable, Future[Any]] = {}

    @property
    def under_way(self) -> int:
        """Questions with a deadline that are worked on."""
        return len(self._under_way)

    async def wait(
        self,
        options: Options,
        key: Hashable,
        full: Callable[[], T],
        preparation: Preparation | None = None,
    ) -> T:
        """Return the full answer to a question with a deadline.

        Parameters
        ----------
        key : hashable
            What is asked; the same question is not worked on twice at a time.
        preparation : Preparation or None
            What makes it cheaper beside others that nobody waits for either.

        Raises
        ------
        NotInTimeError
            It did not come in time.
        OverloadedError
            Too many wait already.
        """
        assert options.left_s is not None
        left_s = options.left_s - _RESERVE_S
        if left_s < _LEAST_S:
            self._go_on(key, full, preparation)
            raise _too_late(options)
        answer = asyncio.wrap_future(self._start(key, full))
        # Nobody asks after what fails once the caller has gone.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({answer}, timeout=left_s)
        if not done:
            raise _too_late(options)
        return answer.result()

    def _go_on(
        self, key: Hashable, full: Callable[[], Any], preparation: Preparation | None
    ) -> None:
        # Where there is no room for it, the next one who asks brings it up again.
        if key not in self._under_way:
            future = self._rounds.add(key, full, preparation)
            if future is not None:
                self._note(key, future)

    def _start(self, key: Hashable, full: Callable[[], T]) -> Future[T]:
        known = self._under_way.get(key)
        if known is not None and not self._rounds.forget(key):
            return known
        future = self._threads.submit(full)
        self._note(key, future)
        return future

    def _note(self, key: Hashable, future: Future[Any]) -> None:
        self._under_way[key] = future

        def leave(done: Future[Any]) -> None:
            if self._under_way.get(key) is done:
                del self._under_way[key]
            note_failure(done)

        future.add_done_callback(leave)


def _too_late(options: Options) -> NotInTimeError:
    return NotInTimeError(
        f"The full answer did not come within deadline_ms={options.deadline_ms:g}. It is being "
        "worked on: ask again, wait longer, or allow the analytical model to answer instead "
        "(allow_fallback, and no pin_model but 'analytical')."
    )

"""Wait for an answer as long as its caller does, and see to it that it comes for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from perfmodel.errors import NotInTimeError
from service.answering.terms import Terms
from service.answering.threads import AnswerThreads, note_failure
from service.errors import OverloadedError

T = TypeVar("T")

#: Left for putting the answer together and sending it.
_RESERVE_S = 0.0015
#: No question that needs a thread is answered in less; whoever waits no longer is not kept waiting.
_LEAST_S = 0.010
#: When the work on such a question starts: after its answer is on its way.
_AFTER_S = 0.002


class Patience:
    """Runs what answers in full, no longer than the caller waits; it then goes on unattended.

    Parameters
    ----------
    threads : AnswerThreads
        Where it runs.
    background : AnswerThreads
        Where it runs if nobody waits for it from the start.
    """

    def __init__(self, threads: AnswerThreads, background: AnswerThreads) -> None:
        self._threads = threads
        self._background = background
        self._under_way: dict[Hashable, Future[Any]] = {}

    @property
    def under_way(self) -> int:
        """Questions with a deadline that are worked on."""
        return len(self._under_way)

    async def wait(self, terms: Terms, key: Hashable, full: Callable[[], T]) -> T:
        """Return the full answer.

        Parameters
        ----------
        terms : Terms
        key : hashable
            What is asked; the same question is not worked on twice at a time.
        full : callable
            Answers it.

        Raises
        ------
        NotInTimeError
            It did not come in time.
        OverloadedError
            Too many wait already.
        PerfModelError
            What ``full`` raises.
        """
        if terms.left_s is None:
            return await self._threads.run(full)
        left_s = terms.left_s - _RESERVE_S
        if left_s < _LEAST_S:
            asyncio.get_running_loop().call_later(_AFTER_S, self._go_on, key, full)
            raise _too_late(terms)
        answer = asyncio.wrap_future(self._start(self._threads, key, full))
        # Nobody asks after what fails once the caller has gone.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({answer}, timeout=left_s)
        if not done:
            raise _too_late(terms)
        return answer.result()

    def _go_on(self, key: Hashable, full: Callable[[], Any]) -> None:
        # Where there is no room for it, the next one who asks brings it up again.
        with suppress(OverloadedError):
            self._start(self._background, key, full)

    def _start(self, threads: AnswerThreads, key: Hashable, full: Callable[[], T]) -> Future[T]:
        known = self._under_way.get(key)
        if known is not None:
            return known
        future = threads.submit(full)
        self._under_way[key] = future

        def leave(done: Future[T]) -> None:
            self._under_way.pop(key, None)
            note_failure(done)

        future.add_done_callback(leave)
        return future


def _too_late(terms: Terms) -> NotInTimeError:
    return NotInTimeError(
        f"The full answer did not come within deadline_ms={terms.deadline_ms:g}. It is being "
        "worked on: ask again, wait longer, or allow the analytical model to answer instead "
        "(allow_fallback, and no pin_model but 'analytical')."
    )

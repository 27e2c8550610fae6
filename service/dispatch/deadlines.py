"""Wait for an answer as long as its caller does, and see to it that it comes for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from starlette.requests import ClientDisconnect

from perfmodel.errors import NotInTimeError
from perfmodel.estimator.jobs.capture_terms import AbandonedError
from service.answering.lanes import Lanes
from service.answering.questions import Options
from service.answering.request_terms import while_connected
from service.answering.thread_pool import Work, note_failure
from service.dispatch.background_rounds import BackgroundRounds, Preparation

T = TypeVar("T")

#: Left for putting the answer together and sending it.
_RESERVE_S = 0.0015
#: No question that needs a thread is answered in less; whoever waits no longer is not kept waiting.
_LEAST_S = 0.010


class _UnderWay(NamedTuple):
    """Work on a question, and how many wait for it."""

    future: Work[Any]
    waiting: list[Options]


class Deadlines:
    """Runs what answers in full, no longer than the caller waits; it then goes on unattended.

    What has not begun by then leaves its place to those who wait, and stands with other questions
    that nobody waits for (:class:`BackgroundRounds`); what callers who hung up have left there, or
    under way, is not worked on any more.

    Parameters
    ----------
    rounds : BackgroundRounds
        Where it runs, with others, if nobody waits for it.
    """

    def __init__(self, threads: Lanes, rounds: BackgroundRounds) -> None:
        self._threads = threads
        self._rounds = rounds
        self._under_way: dict[Hashable, _UnderWay] = {}

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
        ClientDisconnect
            The caller has gone.
        """
        go_on = partial(self._go_on, key, full, preparation)
        while (left_s := _left_s(options)) >= _LEAST_S:
            work = self._start(key, full)
            work.waiting.append(options)
            end = work.future.cancel
            try:
                return cast(T, await while_connected(work.future, left_s))
            except TimeoutError:
                _call_if_withdrawn(work.future, go_on)
                raise _too_late(options) from None
            except AbandonedError:
                continue  # all who waited for it before had gone just as this one came
            except ClientDisconnect:
                # What goes on in a round was promised to one who waited before.
                if work.future.pool is not None:
                    end = work.future.give_up
                raise
            finally:
                work.waiting.remove(options)
                if not work.waiting:
                    end()
        go_on()
        raise _too_late(options)

    def _go_on(
        self, key: Hashable, full: Callable[[], Any], preparation: Preparation | None
    ) -> None:
        # Where there is no room for it, the next one who asks brings it up again.
        if key not in self._under_way:
            future = self._rounds.add(full, preparation)
            if future is not None:
                self._note(key, future)

    def _start(self, key: Hashable, full: Callable[[], Any]) -> _UnderWay:
        known = self._under_way.get(key)
        if known is not None and not self._rounds.forget(known.future):
            known.future.is_wanted, known.future.is_given_up = True, False
            return known
        return self._note(key, self._threads.submit(full))

    def _note(self, key: Hashable, future: Work[Any]) -> _UnderWay:
        noted = self._under_way[key] = _UnderWay(future, [])

        def leave(done: Future[Any]) -> None:
            if self._under_way.get(key) is noted:
                del self._under_way[key]
            note_failure(done)

        future.add_done_callback(leave)
        return noted


def _call_if_withdrawn(future: Future[Any], action: Callable[[], None]) -> None:
    """Call something once work has ended without having begun."""
    loop, context = asyncio.get_running_loop(), copy_context()

    def ended(done: Future[Any]) -> None:
        if done.cancelled() or isinstance(done.exception(), AbandonedError):
            with suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(action, context=context)

    future.add_done_callback(ended)


def _left_s(options: Options) -> float:
    assert options.left_s is not None
    return options.left_s - _RESERVE_S


def _too_late(options: Options) -> NotInTimeError:
    return NotInTimeError(
        f"The full answer did not come within deadline_ms={options.deadline_ms:g}. It is being "
        "worked on: ask again, wait longer, or allow the analytical model to answer instead "
        "(allow_fallback, and no pin_model but 'analytical')."
    )

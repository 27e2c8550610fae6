"""Whose turn it is to have a process: places for a few, callers in turn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock

from perfmodel.errors import BusyError
from perfmodel.estimator.jobs.capture_terms import wanted_within
from perfmodel.fair_queue import FairQueue


class Turns:
    """Lets a few threads at a time go on, callers in turn (:class:`FairQueue`).

    Parameters
    ----------
    places : int
        What may go on at a time, >= 1.
    """

    def __init__(self, places: int = 2, *, most_wait_s: float = 8.0) -> None:
        self.places = places
        self.most_wait_s = most_wait_s
        self._queue: FairQueue[_Ticket] = FairQueue(places)
        self._free = set(range(places))
        self._lock = Lock()

    @contextmanager
    def turn(self, caller: str) -> Iterator[int]:
        """Wait for a place, and hold it.

        Yields
        ------
        int
            Which one, from 0; nobody else has it meanwhile.

        Raises
        ------
        BusyError
            None came in time.
        AbandonedError
            Nobody waits any more for what it is for.
        """
        ticket, began = _Ticket(), time.monotonic()
        with self._lock:
            self._queue.add(caller, ticket)
            self._hand_out()
        try:
            if not wanted_within(ticket.called, self.most_wait_s):
                raise BusyError(
                    f"All {self.places} processes that capture were busy for "
                    f"{time.monotonic() - began:.0f} s. Ask again later; known jobs are answered "
                    "meanwhile."
                )
            yield ticket.place
        finally:
            with self._lock:
                if not self._queue.remove(caller, ticket):
                    self._free.add(ticket.place)
                    self._queue.done(caller)
                    self._hand_out()

    @property
    def has_waiting(self) -> bool:
        """Whether anybody waits for a place."""
        return self._queue.has_waiting

    def _hand_out(self) -> None:
        while (taken := self._queue.take()) is not None:
            ticket = taken[1]
            # The lowest: equal jobs at other batch sizes meet the process that knows them.
            ticket.place = min(self._free)
            self._free.remove(ticket.place)
            ticket.called.set()


class _Ticket:
    """Somebody who waits."""

    def __init__(self) -> None:
        self.called = Event()
        self.place = -1

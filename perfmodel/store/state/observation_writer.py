"""Write observations of many callers in few transactions.

A disk takes some hundred transactions a second, whatever is in them. While one is under way the
next callers wait together, and one transaction then serves them all.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import islice

from perfmodel.errors import StoreError
from perfmodel.store.state.observation_records import Outcome, StoredObservation
from perfmodel.store.state.observations import ObservationStore

#: Observations of one transaction, beyond those of a single caller.
_MOST_AT_ONCE = 2_000

_Waiting = tuple[Sequence[StoredObservation], "Future[list[Outcome]]"]


class ObservationWriter:
    """Gathers observations and writes them in a thread of its own.

    Parameters
    ----------
    most_waiting : int
        Observations that may wait for the disk; past it they are turned away.
    """

    def __init__(self, store: ObservationStore, *, most_waiting: int = 20_000) -> None:
        self._store = store
        self._most_waiting = most_waiting
        self._queue: deque[_Waiting] = deque()
        self._count = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def waiting(self) -> int:
        """Observations that wait for the disk."""
        return self._count

    def submit(self, observations: Sequence[StoredObservation]) -> Future[list[Outcome]]:
        """Hand observations over.

        Returns
        -------
        Future
            Done when they are on disk; fails with what stopped that.

        Raises
        ------
        StoreError
            Too many wait already, or the writer was closed.
        """
        answer: Future[list[Outcome]] = Future()
        with self._changed:
            if self._closed:
                raise StoreError("Observations are no longer taken: the service ends.")
            if self._count and self._count + len(observations) > self._most_waiting:
                raise StoreError(f"{self._count} observations wait for the disk. Try again later.")
            self._queue.append((observations, answer))
            self._count += len(observations)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="observations", daemon=True)
                self._thread.start()
            self._changed.notify()
        return answer

    def close(self) -> None:
        """Write what waits, then end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            group: list[_Waiting] = []
            size = 0
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                while self._queue and (not group or size + len(self._queue[0][0]) <= _MOST_AT_ONCE):
                    group.append(self._queue.popleft())
                    size += len(group[-1][0])
                self._count -= size
            if not group:
                return
            # Who waits no longer is passed over; from here on nobody can leave.
            group = [one for one in group if one[1].set_running_or_notify_cancel()]
            try:
                outcomes = self._store.add([seen for some, _ in group for seen in some])
            except Exception as error:  # whatever went wrong, somebody waits to hear of it
                for _, answer in group:
                    answer.set_exception(error)
                continue
            left = iter(outcomes)
            for some, answer in group:
                answer.set_result(list(islice(left, len(some))))

"""Observations that are too old to count are removed, from time to time."""

from __future__ import annotations

import threading

from perfmodel.store.sql.revisions import poll_until
from service.state.state import State

#: Longest pause between two looks, seconds.
_LONGEST_PAUSE_S = 1.0


class Expiry:
    """Removes observations that count no longer; does nothing until it is started.

    What is read from the database is judged by its age at once; what is in memory goes with what is
    removed, up to a second later, or a quarter of the age where that is less.

    Parameters
    ----------
    keep_s : float
        Age from which they count no longer; 0: only those do that said how long they would.
    """

    def __init__(self, state: State, keep_s: float) -> None:
        self._state = state
        self._every_s = min(_LONGEST_PAUSE_S, keep_s / 4 or _LONGEST_PAUSE_S)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="expiry", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def sweep(self) -> int:
        """Remove what is too old now; return how many.

        Raises
        ------
        StoreError
            The database cannot be written.
        """
        removed = self._state.observations.remove_expired()
        if removed:
            self._state.feed.forget_all()
        return removed

    def _watch(self) -> None:
        poll_until(
            self._ended,
            self.sweep,
            every_s=self._every_s,
            complaint="observations that are too old cannot be removed",
        )

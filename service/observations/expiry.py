"""Observations that are too old to count are removed, from time to time."""

from __future__ import annotations

from typing import final

from perfmodel.store.sql.polling import PollingThread
from service.state.state import State

#: Longest pause between two looks, seconds.
_LONGEST_PAUSE_S = 1.0


@final
class Expiry(PollingThread):
    """Removes observations that count no longer; does nothing until it is started.

    What is read from the database is judged by its age at once; what is in memory goes with what is
    removed, up to a second later, or a quarter of the age where that is less.

    Parameters
    ----------
    keep_s : float
        Age from which they count no longer; 0: only those do that said how long they would.
    """

    def __init__(self, state: State, keep_s: float) -> None:
        super().__init__(
            "expiry",
            every_s=min(_LONGEST_PAUSE_S, keep_s / 4 or _LONGEST_PAUSE_S),
            complaint="observations that are too old cannot be removed",
        )
        self._state = state

    def poll(self) -> int:
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

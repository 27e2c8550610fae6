"""Observations that are removed: taken back, left out and taken in again, or too old to count."""

from __future__ import annotations

from dataclasses import replace
from typing import final

from perfmodel.json_values import shown
from perfmodel.store.sql.polling import PollingThread
from perfmodel.store.state.observation_records import ObservationFilter, ObservationState
from service.http.errors import NotYoursError
from service.observations.meant import Meant
from service.state.state import State

#: What an observation may become, out of which states, by who reported it and by administrators.
_OUT_OF = {
    ObservationState.EXCLUDED: ({ObservationState.ACCEPTED}, {ObservationState.ACCEPTED}),
    ObservationState.ACCEPTED: (
        {ObservationState.EXCLUDED},
        {ObservationState.EXCLUDED, ObservationState.QUARANTINED},
    ),
}


class Retraction:
    """Takes observations back for somebody: removes them, leaves them out, takes them in again.

    When a method returns, every later answer of this process is as if it had always been so; other
    processes follow at their next look at the counters of changes.

    Parameters
    ----------
    caller : str
        Who asks; the observations of others are out of reach unless ``is_administrator``.
    """

    def __init__(self, state: State, caller: str, *, is_administrator: bool) -> None:
        self._state = state
        self._caller = caller
        self._is_administrator = is_administrator

    def remove(self, meant: Meant) -> int:
        """Remove what is meant; return how many.

        Raises
        ------
        NotYoursError
            Those of another reporter were asked for.
        """
        which = self._within_reach(meant)
        return self._told(self._state.observations.remove(which))

    def move(self, meant: Meant, to: ObservationState) -> int:
        """Leave out what is meant, or take it in again; return how many.

        Only what counted is left out. Whoever reported an observation may take in again what was
        left out; one that is not believed is taken in by administrators alone.

        Raises
        ------
        NotYoursError
            Those of another reporter were asked for.
        """
        which = self._within_reach(meant)
        out_of = _OUT_OF[to][self._is_administrator]
        return self._told(self._state.observations.move(which, to, out_of=out_of))

    def _within_reach(self, meant: Meant) -> ObservationFilter:
        which = meant.filter(self._state.references)
        if self._is_administrator:
            return which
        if which.reporter not in (None, self._caller):
            raise NotYoursError(
                f"The observations of {shown(which.reporter)} are those of another reporter; "
                f"yours are those of {self._caller!r}."
            )
        return replace(which, reporter=self._caller)

    def _told(self, changed: int) -> int:
        if changed:
            self._state.feed.forget_all()
        return changed


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

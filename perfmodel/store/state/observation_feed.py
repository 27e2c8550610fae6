"""The observations that count for answers, kept in memory and young.

What another process adds or takes back is seen within a poll of the counters of changes; what this
process does, at once. A database that cannot be reached stops no answer: what was known before it
was lost counts on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar, final

from perfmodel.errors import StoreError
from perfmodel.store.sql.polling import PollingThread
from perfmodel.store.state.observation_records import StoredObservation
from perfmodel.store.state.observations import Changes, ObservationStore

logger = logging.getLogger(__name__)

Seen = TypeVar("Seen")

#: Families of jobs whose observations are kept in memory.
_CAPACITY = 20_000
#: Observations of all jobs that count; of each cell and reporter the newest few.
MOST_OF_ALL = 4_096
#: How often these are read again at most for what is added: answers need not follow every step.
EVERY_S = 1.0
#: Seconds for which a database that failed is not asked again.
_PAUSE_S = 5.0


class _Marks(NamedTuple):
    """How often something was added, and something taken back, that this process knows of."""

    changes: int
    taken_back: int


@final
class ObservationFeed(PollingThread, Generic[Seen]):
    """Tells what was observed of a family of jobs and last of any; safe to share between threads.

    Parameters
    ----------
    read : callable
        Turns stored observations into what answers are made from, one for each that can be read.
    poll_s : float
        How often the database is asked whether something was added.
    """

    def __init__(
        self,
        store: ObservationStore,
        read: Callable[[Sequence[StoredObservation]], tuple[Seen, ...]],
        *,
        poll_s: float = 0.5,
    ) -> None:
        super().__init__("feed", every_s=poll_s, complaint="new observations cannot be seen")
        self._store = store
        self._read = read
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Seen, ...]] = OrderedDict()
        self._old: set[str] = set()
        self._each: dict[StoredObservation, tuple[Seen, ...]] = {}
        self._of_all: tuple[Seen, ...] | None = None
        self._marks, self._of_all_is_of = _Marks(0, 0), _Marks(-1, -1)
        self._next_s = self._paused_all_until = 0.0
        self._reading_all = threading.Lock()
        self._polled: Changes | None = None
        self._paused_until = 0.0

    def known(self, family: str) -> tuple[Seen, ...] | None:
        """Return what is in memory and young, or None; never waits for the database."""
        if family in self._old:
            return None
        return self._known.get(family)

    def known_of_all(self) -> tuple[Seen, ...] | None:
        """Return what :meth:`of_all` would, or None where it is to be read again; never waits."""
        if self._is_old() and (self._has_taken_back() or not self._reading_all.locked()):
            return None
        # While somebody reads what was added, the others go on with what was known.
        return self._of_all

    def of(self, family: str) -> tuple[Seen, ...]:
        """Return the observations that count for a family; the same object until they change.

        Those of the same jobs with another batch are among them; quarantined and excluded ones are
        not. What another process did is seen within a second. Reads the database for a family that
        was not asked about before, or that was observed since.

        Returns
        -------
        tuple
            Oldest first. Where the database fails: those that were known last.
        """
        known = self.known(family)
        if known is not None:
            return known
        before = self._known.get(family, ())
        if time.monotonic() < self._paused_until:
            return before
        try:
            return self._load(family, before)
        except StoreError as error:
            self._paused_until = time.monotonic() + _PAUSE_S
            logger.warning("observations cannot be read; answers go on without: %s", error)
            return before

    def of_all(self) -> tuple[Seen, ...]:
        """Return the observations of all jobs that count; the same object until they change.

        What was added is seen within two seconds, what was taken back as in :meth:`of`.

        Returns
        -------
        tuple
            Oldest first, each from a stored observation with the content of its job. Where the
            database fails: those that were known last.
        """
        known = self.known_of_all()
        if known is None:
            with self._reading_all:
                if self._is_old():
                    self._load_all()
                known = self._of_all or ()
        return known

    def forget(self, families: Iterable[str]) -> None:
        """Read some families again when they are asked for next."""
        with self._lock:
            self._marks = self._marks._replace(changes=self._marks.changes + 1)
            self._old.update(family for family in families if family in self._known)

    def forget_all(self) -> None:
        """Read everything again when it is asked for next: something was taken back."""
        with self._lock:
            self._marks = self._marks._replace(taken_back=self._marks.taken_back + 1)
            self._old.update(self._known)

    @property
    def taken_back(self) -> int:
        """How often something was taken back that this process knows of."""
        return self._marks.taken_back

    def poll(self) -> None:
        """Look whether something was added to the database, or taken back.

        Raises
        ------
        StoreError
            It cannot be read.
        """
        before = self._polled
        now = self._store.changes_since(before.revision if before else 0)
        if before is None or now.taken_back != before.taken_back:
            self.forget_all()
        elif now.revision != before.revision:
            self.forget(now.families)
        self._polled = now

    def _is_old(self) -> bool:
        """Return whether what is known of all jobs is to be read again, and may be."""
        if self._of_all_is_of is self._marks:
            return False
        # What was taken back is not to wait, unless the database is away.
        since_s = self._paused_all_until if self._has_taken_back() else self._next_s
        return time.monotonic() >= since_s

    def _has_taken_back(self) -> bool:
        return self._of_all_is_of.taken_back != self._marks.taken_back

    def _load(self, family: str, before: tuple[Seen, ...]) -> tuple[Seen, ...]:
        self.start()
        marks = self._marks
        found = self._read(self._store.counting(family))
        if found == before:
            found = before
        with self._lock:
            # Else something happened since, and what was read may be from before that.
            if marks is self._marks:
                self._known[family] = found
                self._known.move_to_end(family)
                self._old.discard(family)
                if len(self._known) > _CAPACITY:
                    self._old.discard(self._known.popitem(last=False)[0])
        return found

    def _load_all(self) -> None:
        marks, known = self._marks, self._of_all or ()
        try:
            self.start()
            found = self._read_each(self._store.counting(None, most=MOST_OF_ALL))
        except StoreError as error:
            logger.warning("observations of other jobs cannot be read: %s", error)
            self._next_s = self._paused_all_until = time.monotonic() + _PAUSE_S
            self._of_all = known
            return
        # What is added after a quiet time counts at once; many a second are taken together.
        self._next_s = time.monotonic() + (0.0 if found == known else EVERY_S)
        self._of_all = known if found == known else found
        self._of_all_is_of = marks

    def _read_each(self, stored: Sequence[StoredObservation]) -> tuple[Seen, ...]:
        """Read observations; what was read before stays the same object."""
        before = self._each
        self._each = {one: before[one] if one in before else self._read([one]) for one in stored}
        return tuple(seen for found in self._each.values() for seen in found)

    def start(self) -> None:
        """Begin to look; what is added from now on is seen."""
        if self._thread is not None:
            return
        changes = self._store.changes()
        with self._lock:
            # Of two that start it the first one's: what happened since is to be seen.
            self._polled = self._polled or changes
        super().start()

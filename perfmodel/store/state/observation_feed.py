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
from dataclasses import dataclass
from math import inf
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


@dataclass(slots=True)
class _Kept(Generic[Seen]):
    """What was observed, and from when on it is to be read again.

    Parameters
    ----------
    until_s : float
        Infinity as long as nothing happened; at once where something was taken back.
    next_s : float
        When it may be read again for what is added.
    """

    seen: tuple[Seen, ...]
    until_s: float
    next_s: float = 0.0


#: Of what was taken back: now, and nobody goes on with what was known.
_AT_ONCE = -inf


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
        self._known: OrderedDict[str | None, _Kept[Seen]] = OrderedDict()
        self._unknown: _Kept[Seen] = _Kept((), _AT_ONCE)
        self._each: dict[StoredObservation, tuple[Seen, ...]] = {}
        self._reading_all = threading.Lock()
        self._marks = _Marks(0, 0)
        self._polled: Changes | None = None
        self._paused_until = 0.0

    def known(self, family: str | None) -> tuple[Seen, ...] | None:
        """Return what :meth:`of` would, or None where it is to be read; never waits."""
        kept = self._known.get(family, self._unknown)
        if self._is_young(kept):
            return kept.seen
        # While somebody reads what was added to all, the others go on with what was known.
        go_on = family is None and kept.until_s != _AT_ONCE and self._reading_all.locked()
        return kept.seen if go_on else None

    def of(self, family: str | None) -> tuple[Seen, ...]:
        """Return the observations that count; the same object until they change.

        Those of the same jobs with another batch are among them; quarantined and excluded ones are
        not. What another process did is seen within a second, but of all jobs within two what was
        added. Reads the database for what was not asked about before, or was observed since.

        Parameters
        ----------
        family : str or None
            Of jobs; None: of all, each from a stored observation with the content of its job.

        Returns
        -------
        tuple
            Oldest first. Where the database fails: those that were known last.
        """
        known = self.known(family)
        if known is not None:
            return known
        if family is not None:
            return self._load(family)
        with self._reading_all:
            kept = self._known.get(None, self._unknown)
            # Somebody else may have read what both waited for.
            return kept.seen if self._is_young(kept) else self._load(None)

    def forget(self, families: Iterable[str]) -> None:
        """Read some families again when they are asked for next."""
        with self._lock:
            self._marks = self._marks._replace(changes=self._marks.changes + 1)
            for family in (*families, None):
                kept = self._known.get(family)
                if kept is not None:
                    kept.until_s = min(kept.until_s, kept.next_s)

    def forget_all(self) -> None:
        """Read everything again when it is asked for next: something was taken back."""
        with self._lock:
            self._marks = self._marks._replace(taken_back=self._marks.taken_back + 1)
            for kept in self._known.values():
                kept.until_s = _AT_ONCE

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

    def _is_young(self, kept: _Kept[Seen]) -> bool:
        """Tell whether nothing happened since, or what did is not to be looked for yet."""
        if kept.until_s == inf:
            return True
        return time.monotonic() < max(kept.until_s, self._paused_until)

    def _load(self, family: str | None) -> tuple[Seen, ...]:
        marks, before = self._marks, self._known.get(family, self._unknown).seen
        try:
            if self._thread is None:
                self.start()
            if family is None:
                found = self._read_each(self._store.counting(None, most=MOST_OF_ALL))
            else:
                found = self._read(self._store.counting(family))
        except StoreError as error:
            self._paused_until = time.monotonic() + _PAUSE_S
            logger.warning("observations cannot be read; answers go on without: %s", error)
            return before
        # What is added to all after a quiet time counts at once; many a second are taken together.
        is_paced = family is None and found != before
        next_s = time.monotonic() + EVERY_S if is_paced else 0.0
        new = _Kept(before if found == before else found, inf, next_s)
        with self._lock:
            # What happened since may not be in what was read.
            if marks.taken_back != self._marks.taken_back:
                new.until_s = _AT_ONCE
            elif marks is not self._marks:
                new.until_s = next_s
            self._known[family] = new
            self._known.move_to_end(family)
            if len(self._known) > _CAPACITY:
                self._known.popitem(last=False)
        return new.seen

    def _read_each(self, stored: Sequence[StoredObservation]) -> tuple[Seen, ...]:
        """Read observations; what was read before stays the same object."""
        before = self._each
        self._each = {one: before[one] if one in before else self._read([one]) for one in stored}
        return tuple(seen for found in self._each.values() for seen in found)

    def start(self) -> None:
        """Begin to look; what is added from now on is seen."""
        changes = self._store.changes()
        with self._lock:
            # Of two that start it the first one's: what happened since is to be seen.
            self._polled = self._polled or changes
        super().start()

"""The observations that count for answers, kept in memory and young.

What another process adds is seen within a poll of the revision counter; what this process adds,
at once. A database that cannot be reached stops no answer: what was known before it was lost
counts on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from perfmodel.errors import StoreError
from perfmodel.store.sql.revisions import poll_until
from perfmodel.store.state.observations import ObservationStore, StoredObservation

logger = logging.getLogger(__name__)

Seen = TypeVar("Seen")
_Cell = tuple[str, str, int, int]

#: Families of jobs whose observations are kept in memory.
_CAPACITY = 20_000
#: Cells of all jobs that are kept; of each the newest observation.
MOST_CELLS = 2_048
#: How often these are read again at most: whatever is added, answers need not follow every step.
EVERY_S = 1.0
#: Seconds for which a database that failed is not asked again.
_PAUSE_S = 5.0


class ObservationFeed(Generic[Seen]):
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
        self._store = store
        self._read = read
        self._poll_s = poll_s
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[Seen, ...]] = OrderedDict()
        self._old: set[str] = set()
        self._cells: OrderedDict[_Cell, Seen] = OrderedDict()
        self._of_all: tuple[Seen, ...] | None = None
        self._changes_of_all, self._last, self._next_s = -1, 0, 0.0
        self._reading_all = threading.Lock()
        self._changes = 0
        self._revision: int | None = None
        self._paused_until = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def known(self, family: str) -> tuple[Seen, ...] | None:
        """Return what is in memory and young, or None; never waits for the database."""
        if family in self._old:
            return None
        return self._known.get(family)

    def known_of_all(self) -> tuple[Seen, ...] | None:
        """Return what :meth:`of_all` would, or None where it is to be read again; never waits."""
        if self._changes_of_all != self._changes and time.monotonic() >= self._next_s:
            return None
        return self._of_all

    def of(self, family: str) -> tuple[Seen, ...]:
        """Return the observations that count for a family; the same object until they change.

        Those of the same jobs with another batch are among them; quarantined ones are not. What
        another process stored is seen within a second. Reads the database for a family that was
        not asked about before, or that was observed since.

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
        """Return the newest observations of all jobs; the same object until something is added.

        What was added is seen within two seconds.

        Returns
        -------
        tuple
            Oldest first, each from a stored observation with the content of its job. Where the
            database fails: those that were known last.
        """
        known = self.known_of_all()
        if known is None:
            with self._reading_all:
                known = self.known_of_all()
                if known is None:
                    known = self._load_all()
        return known

    def forget(self, families: Iterable[str]) -> None:
        """Read some families again when they are asked for next."""
        with self._lock:
            self._changes += 1
            self._old.update(family for family in families if family in self._known)

    def poll(self) -> None:
        """Look whether something was added to the database.

        Raises
        ------
        StoreError
            It cannot be read.
        """
        revision, families = self._store.changed_since(self._revision or 0)
        if revision != self._revision:
            self.forget(families)
            self._revision = revision

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()
        with self._lock:
            # An answer may be starting it at this moment.
            thread = self._thread
        if thread is not None:
            thread.join()

    def _load(self, family: str, before: tuple[Seen, ...]) -> tuple[Seen, ...]:
        self._start()
        changes = self._changes
        found = self._read(self._store.recent(family))
        if found == before:
            found = before
        with self._lock:
            # Something was added since: what was read may lack it, so it is not kept.
            if changes == self._changes:
                self._known[family] = found
                self._known.move_to_end(family)
                self._old.discard(family)
                if len(self._known) > _CAPACITY:
                    self._old.discard(self._known.popitem(last=False)[0])
        return found

    def _load_all(self) -> tuple[Seen, ...]:
        changes, wait_s, known = self._changes, 0.0, self._of_all
        try:
            self._start()
            stored, self._last = self._store.newest(MOST_CELLS, after=self._last)
            for one in stored:
                cell = (one.job.family, one.placement, one.batch_size, one.accumulation_steps)
                for seen in self._read([one]):
                    self._cells[cell] = seen
                    self._cells.move_to_end(cell)
            while len(self._cells) > MOST_CELLS:
                self._cells.popitem(last=False)
            if stored or known is None:
                known = tuple(self._cells.values())
            # What is added after a quiet time counts at once; many a second are taken together.
            wait_s = EVERY_S if stored else 0.0
            self._changes_of_all = changes
        except StoreError as error:
            logger.warning("observations of other jobs cannot be read: %s", error)
            known = known or ()
            wait_s = _PAUSE_S
        self._of_all = known
        self._next_s = time.monotonic() + wait_s
        return known

    def _start(self) -> None:
        if self._thread is not None:
            return
        revision = self._store.revision()
        with self._lock:
            if self._thread is None and not self._ended.is_set():
                self._revision = revision
                self._thread = threading.Thread(target=self._watch, name="feed", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        poll_until(
            self._ended,
            self.poll,
            every_s=self._poll_s,
            complaint="new observations cannot be seen",
        )

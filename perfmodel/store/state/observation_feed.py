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

#: Families of jobs whose observations are kept in memory.
_CAPACITY = 20_000
#: Seconds for which a database that failed is not asked again.
_PAUSE_S = 5.0


class ObservationFeed(Generic[Seen]):
    """Tells what was observed of a family of jobs; safe to share between threads.

    Parameters
    ----------
    read : callable
        Turns stored observations into what answers are made from.
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
        self._changes = 0
        self._revision: int | None = None
        self._paused_until = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def changes(self) -> int:
        """A number that grows whenever something may have been added, of any family."""
        return self._changes

    def watch(self) -> None:
        """Begin to look for what other processes add."""
        self._start()

    def known(self, family: str) -> tuple[Seen, ...] | None:
        """Return what is in memory and young, or None; never waits for the database."""
        if family in self._old:
            return None
        return self._known.get(family)

    def of(self, family: str) -> tuple[Seen, ...]:
        """Return the observations that count for a family; the same object until they change.

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

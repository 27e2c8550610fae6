"""The newest observations of all jobs, kept in memory: what answers learn of other jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace

import orjson

from perfmodel.errors import InvalidInputError, StoreError
from perfmodel.graph.job import Job
from perfmodel.graph.job_form import parse_job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.store.state.observation_feed import ObservationFeed
from perfmodel.store.state.observations import ObservationStore, StoredObservation

logger = logging.getLogger(__name__)

#: Cells that are kept; of each the newest observation.
MOST_CELLS = 2_048
#: How often they are read again at most: whatever is added, answers need not follow every step.
EVERY_S = 1.0
#: Seconds for which a database that failed is not asked again.
_PAUSE_S = 5.0

_Cell = tuple[str, str, int, int]


class NewestObservations:
    """Tells what was observed last, of any job; safe to share between threads.

    Parameters
    ----------
    read : callable
        Turns stored observations into what answers are made from, one for each that can be read.
    """

    def __init__(
        self,
        store: ObservationStore,
        feed: ObservationFeed[Observation],
        read: Callable[[Sequence[StoredObservation]], tuple[Observation, ...]],
        *,
        every_s: float = EVERY_S,
    ) -> None:
        self._store, self._feed, self._read, self._every_s = store, feed, read, every_s
        self._lock = threading.Lock()
        self._jobs: LruCache[str, Job] = LruCache(4_096)
        self._cells: OrderedDict[_Cell, Observation] = OrderedDict()
        self._newest: tuple[Observation, ...] | None = None
        self._changes, self._last, self._next_s = -1, 0, 0.0

    def known(self) -> tuple[Observation, ...] | None:
        """Return what is in memory, or None where it is to be read again; never waits."""
        if self._changes != self._feed.changes and time.monotonic() >= self._next_s:
            return None
        return self._newest

    def all(self) -> tuple[Observation, ...]:
        """Return them with their jobs, oldest first; the same object until something is added.

        Where the database cannot be read: those that were known last.
        """
        known = self.known()
        if known is not None:
            return known
        with self._lock:
            known = self.known()
            return self._read_on() if known is None else known

    def _read_on(self) -> tuple[Observation, ...]:
        changes, wait_s = self._feed.changes, 0.0
        try:
            self._feed.watch()
            stored, self._last = self._store.newest(MOST_CELLS, after=self._last)
            if stored or self._newest is None:
                self._newest = self._with(stored)
            # What is added after a quiet time counts at once; many a second are taken together.
            wait_s = self._every_s if stored else 0.0
            self._changes = changes
        except StoreError as error:
            logger.warning("observations of other jobs cannot be read: %s", error)
            self._newest = self._newest or ()
            wait_s = _PAUSE_S
        self._next_s = time.monotonic() + wait_s
        return self._newest

    def _with(self, stored: Sequence[StoredObservation]) -> tuple[Observation, ...]:
        for one in stored:
            job = self._job(one)
            for seen in self._read([one]) if job is not None else ():
                cell = (one.job.family, one.placement, one.batch_size, one.accumulation_steps)
                self._cells[cell] = replace(seen, job=job)
                self._cells.move_to_end(cell)
        while len(self._cells) > MOST_CELLS:
            self._cells.popitem(last=False)
        return tuple(self._cells.values())

    def _job(self, stored: StoredObservation) -> Job | None:
        known = self._jobs.get(stored.job.ref)
        if known is None:
            try:
                known = parse_job(orjson.loads(stored.job.content))
            except (InvalidInputError, orjson.JSONDecodeError) as error:
                logger.warning("job %s cannot be read: %s", stored.job.ref, error)
                return None
            self._jobs.put(stored.job.ref, known)
        return known

"""An oracle that answers the look-ups of Gavel's scheduler from predictions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from perfmodel.adapters.ask import Answers, NoAnswerError
from perfmodel.adapters.gavel import (
    ALONE,
    GavelJob,
    GavelTable,
    Key,
    Partners,
    Rate,
    Table,
    throughput_table,
    workers,
)

LOG = logging.getLogger(__name__)


class OracleThroughputs(Mapping[str, Mapping[Key, Mapping[str | Key, Rate]]]):
    """Stands where Gavel holds ``_oracle_throughputs``; look-ups are those of a dictionary.

    The whole table is asked for at once and kept. An entry without an answer is that of
    ``fallback``; where that has none either, every worker type gets the same rate, so that no
    policy prefers one, and no pair is said to run together. Without the service Gavel goes on
    with those alone, and the service is asked again when ``refresh_s`` is over.

    Parameters
    ----------
    worker_types : mapping of str to str
        As for :func:`throughput_table`.
    fallback : mapping or None
        A measured table as Gavel's own reader returns it.
    neutral_steps_per_s : float
        Rate of one worker of which nothing is known.
    refresh_s : float
        How long a table is kept; the next one is asked for in the background.
    **options
        As for :func:`throughput_table`.

    Examples
    --------
    In Gavel's scheduler, after its constructor::

        scheduler._oracle_throughputs = OracleThroughputs(
            Service(url, timeout_s=60), jobs, workers
        )
    """

    def __init__(
        self,
        answers: Answers,
        jobs: Sequence[GavelJob],
        worker_types: Mapping[str, str],
        *,
        fallback: Mapping[str, Mapping[Key, Mapping[Any, Rate]]] | None = None,
        neutral_steps_per_s: float = 1.0,
        refresh_s: float = 360.0,
        **options: Any,
    ) -> None:
        self._answers = answers
        self._jobs = jobs
        self._worker_types = dict(worker_types)
        self._fallback = fallback or {}
        self._neutral_steps_per_s = neutral_steps_per_s
        self._refresh_s = refresh_s
        self._options = options
        self._table: Table = {}
        self._asked_at: float | None = None
        #: Entries that were not predicted, for people.
        self.unanswered: tuple[str, ...] = ()

    def __getitem__(self, worker_type: str) -> Mapping[Key, Mapping[str | Key, Rate]]:
        return self._current()[worker_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def _current(self) -> Table:
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at >= self._refresh_s:
            self._asked_at = now
            if self._table:
                # A table takes seconds; meanwhile Gavel goes on with the one there is.
                threading.Thread(target=self._refresh, daemon=True).start()
            else:
                self._refresh()
        return self._table

    def _refresh(self) -> None:
        try:
            table = throughput_table(self._answers, self._jobs, self._worker_types, **self._options)
        except NoAnswerError as error:
            LOG.warning("Gavel goes on without predictions: %s", error)
            if self._table:
                return  # what was predicted before is still the best that is known
            table = GavelTable(rates={}, unanswered=("everything",))
        self.unanswered = table.unanswered
        self._table = self._completed(table.rates)

    def _completed(self, predicted: Table) -> Table:
        unconsolidated = bool(self._options.get("unconsolidated", True))
        return {
            worker: {
                key: self._partners(worker, key, predicted.get(worker, {}).get(key, {}))
                for key in self._keys()
            }
            for worker, _, _ in workers(self._worker_types, unconsolidated)
        }

    def _keys(self) -> Iterable[Key]:
        return ((one.job_type, scale) for one in self._jobs for scale in one.scale_factors)

    def _partners(self, worker: str, key: Key, predicted: Partners) -> Partners:
        measured = self._fallback.get(worker, {}).get(key, {})
        found: Partners = {ALONE: self._neutral_steps_per_s * key[1]}
        if self._options.get("pairs", True):
            found.update((other, [0.0, 0.0]) for other in self._keys() if other[1] == key[1])
        found.update(measured)
        found.update(predicted)
        return found

"""An oracle that answers the look-ups of Gavel's scheduler from predictions."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from perfmodel.adapters.ask import Answers, NoAnswerError
from perfmodel.adapters.gavel import GavelJob, measured_rates, throughput_table, workers
from perfmodel.adapters.measured.gavel_rates import (
    ALONE,
    AnyTable,
    Key,
    MeasuredRates,
    Partners,
    Rate,
    Table,
)
from perfmodel.errors import InvalidInputError

LOG = logging.getLogger(__name__)


class OracleThroughputs(Mapping[str, Mapping[Key, Mapping[str | Key, Rate]]]):
    """Stands where Gavel holds ``_oracle_throughputs``; look-ups are those of a dictionary.

    The whole table is asked for at once and kept. What was measured stands in it as it is. An entry
    without an answer is that of ``fallback``; where that has none either, worker types are to one
    another what they are for the other jobs, or equal, and no pair is said to run together.
    Without the service Gavel goes on with those alone, and the service is asked again when
    ``refresh_s`` is over.

    Parameters
    ----------
    worker_types : mapping of str to str
        As for :func:`throughput_table`.
    observed : mapping or None
        What was measured, as for :func:`throughput_table`. It may be added to: it is read again
        whenever the table is asked for, and what cannot be read is passed over with a warning.
    fallback : mapping or None
        Another table, such as last week's, as Gavel's own reader returns it.
    neutral_steps_per_s : float
        Rate of one worker, on average, for a job of which nothing is known on any worker type.
    refresh_s : float
        How long a table is kept; the next one is asked for in the background.
    **options
        As for :func:`throughput_table`.

    Raises
    ------
    InvalidInputError
        Measured rates as :func:`throughput_table` refuses them.

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
        observed: AnyTable | None = None,
        fallback: AnyTable | None = None,
        neutral_steps_per_s: float = 1.0,
        refresh_s: float = 360.0,
        **options: Any,
    ) -> None:
        self._answers = answers
        self._jobs = jobs
        self._worker_types = dict(worker_types)
        self._observed, self._fallback = observed, fallback or {}
        self._neutral_steps_per_s = neutral_steps_per_s
        self._refresh_s = refresh_s
        self._options = options
        self._unconsolidated = bool(options.get("unconsolidated", True))
        self._measured = self._read()
        self._predicted: Table = {}
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

    def refresh(self) -> None:
        """Read what was measured and ask for the table, now."""
        self._asked_at = time.monotonic()
        self._read_again()
        self._ask()

    def _current(self) -> Table:
        now = time.monotonic()
        if self._asked_at is None:
            self.refresh()
        elif now - self._asked_at >= self._refresh_s:
            self._asked_at = now
            # Here, where nobody adds to what was measured meanwhile.
            self._read_again()
            # A table takes seconds; meanwhile Gavel goes on with the one there is.
            threading.Thread(target=self._ask, daemon=True).start()
        return self._table

    def _read(self) -> MeasuredRates:
        return measured_rates(self._jobs, self._worker_types, self._unconsolidated, self._observed)

    def _read_again(self) -> None:
        try:
            self._measured = self._read()
        except InvalidInputError as error:
            LOG.warning("Gavel goes on with what was measured before: %s", error)

    def _ask(self) -> None:
        measured = self._measured.table()
        try:
            found = throughput_table(
                self._answers, self._jobs, self._worker_types, observed=measured, **self._options
            )
        except NoAnswerError as error:
            LOG.warning("Gavel goes on without new predictions: %s", error)
            if not self._predicted:
                self.unanswered = ("everything",)
        else:
            # Kept: later, what was predicted before is still the best that is known.
            self._predicted, self.unanswered = found.rates, found.unanswered
        self._table = self._joined(self._fallback, self._predicted, measured)

    def _joined(self, *tables: AnyTable) -> Table:
        """Return all entries of some tables, the later the better; neutral where none has one."""
        names = [worker for worker, _, _ in workers(self._worker_types, self._unconsolidated)]
        joined: Table = {worker: {} for worker in names}
        for table in tables:
            for worker in names:
                for key, partners in table.get(worker, {}).items():
                    joined[worker].setdefault(key, {}).update(partners)
        keys = [(one.job_type, scale) for one in self._jobs for scale in one.scale_factors]
        known = {key: _rates_alone(joined, key) for key in keys}
        typical = _typical(names, known.values())
        for key in keys:
            for worker in names:
                usual = self._usual(key, keys, known[key], typical, worker)
                joined[worker][key] = usual | joined[worker].get(key, {})
        return joined

    def _usual(
        self,
        key: Key,
        keys: Sequence[Key],
        known: Mapping[str, float],
        typical: Mapping[str, float],
        worker: str,
    ) -> Partners:
        """Return what is said of a job on a worker type of which nothing is known."""
        levels = [math.log(rate) - typical[name] for name, rate in known.items()]
        level = math.log(self._neutral_steps_per_s * key[1])
        if levels:
            level = sum(levels) / len(levels)
        found: Partners = {ALONE: math.exp(level + typical[worker])}
        if self._options.get("pairs", True):
            found.update((other, [0.0, 0.0]) for other in keys if other[1] == key[1])
        return found


def _rates_alone(tables: AnyTable, key: Key) -> dict[str, float]:
    """Return the rates of a job alone, by worker type, where it runs."""
    found = {worker: table.get(key, {}).get(ALONE) for worker, table in tables.items()}
    return {w: float(rate) for w, rate in found.items() if isinstance(rate, float | int) and rate}


def _typical(names: Sequence[str], jobs: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return how fast worker types are for jobs that are known on all of them, in logarithms.

    Equal rates prefer no worker type for a job by itself. Beside jobs that are faster on one of
    them they say that this one is better used for those.
    """
    whole = [job for job in jobs if all(name in job for name in names)]
    if not whole:
        return dict.fromkeys(names, 0.0)
    means = {name: sum(math.log(job[name]) for job in whole) / len(whole) for name in names}
    middle = sum(means.values()) / len(names)
    return {name: mean - middle for name, mean in means.items()}

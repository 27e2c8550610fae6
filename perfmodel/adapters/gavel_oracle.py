"""An oracle that answers the look-ups of Gavel's scheduler from predictions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
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
    without an answer is that of ``fallback``; where that has none either, a job gets the same rate
    on every worker type, so that no policy prefers one, and no pair is said to run together.
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
        Rate of one worker for a job of which nothing is known on any worker type.
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
        for key in keys:
            neutral = self._neutral(key, keys, [joined[worker].get(key, {}) for worker in names])
            for worker in names:
                joined[worker][key] = neutral | joined[worker].get(key, {})
        return joined

    def _neutral(self, key: Key, keys: Sequence[Key], known: Sequence[Partners]) -> Partners:
        """Return what is said of a job on worker types of which nothing is known."""
        rates = [rate for one in known if isinstance(rate := one.get(ALONE), float | int) and rate]
        alone = sum(rates) / len(rates) if rates else self._neutral_steps_per_s * key[1]
        found: Partners = {ALONE: alone}
        if self._options.get("pairs", True):
            found.update((other, [0.0, 0.0]) for other in keys if other[1] == key[1])
        return found

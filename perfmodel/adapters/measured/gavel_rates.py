"""Measured rates of Gavel: a table in its own form, of which any part may be missing.

A rate is in steps/s, *added up over all workers*, so that a step took ``scale_factor / rate``
seconds. Rate 0 is Gavel's word for what did not run: it is taken as it is, and no pair of a job
runs where the job alone did not. Of all other entries it says nothing.

One accelerator is the same spread out or not, and a pair is measured in both directions at once:
what is missing of either is filled in from the other.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from perfmodel.adapters.ask import JobForm, PlacementForm, SeenInMatrix, written_out
from perfmodel.adapters.measured.numbers import measured_number
from perfmodel.errors import InvalidInputError

#: Name of no partner.
ALONE = "null"
#: What ends the name of a worker type whose accelerators stand on hosts of their own.
SPREAD = "_unconsolidated"

#: A job of the table: its type and its accelerators.
Key = tuple[str, int]
#: Steps/s of a job alone, or of a job and its partner.
Rate = float | list[float]
Partners = dict[str | Key, Rate]
Table = dict[str, dict[Key, Partners]]
#: A table as whoever measured holds it.
AnyTable = Mapping[str, Mapping[Key, Mapping[Any, Any]]]

#: Worker type, job and partner.
Entry = tuple[str, Key, str | Key]


class MeasuredRates:
    """A measured table, checked.

    Parameters
    ----------
    measured : mapping
        As Gavel holds it in memory, or as :func:`read_rates` reads its file.
    job_types : sequence of str
        Those of the table that is exported.
    workers : sequence of str
        Its worker types.

    Raises
    ------
    InvalidInputError
        A worker type, job or partner that the exported table does not have, or a rate that is none.
    """

    def __init__(
        self, measured: AnyTable, job_types: Sequence[str], workers: Sequence[str]
    ) -> None:
        self._rows = {name: row for row, name in enumerate(job_types)}
        self._workers = workers
        given = dict(self._checked(measured))
        #: Every entry that is known, those given first.
        self.entries: dict[Entry, Rate] = dict(given)
        for entry, rate in given.items():
            for alike, same in self._alike(entry, rate):
                self.entries.setdefault(alike, same)

    def observations(
        self, jobs: Sequence[JobForm], place: Callable[[str, int, int | None], PlacementForm]
    ) -> list[SeenInMatrix]:
        """Return what ran as measured steps.

        Pairs are left to jobs that are known by their type alone: of a captured job the step
        beside another would be taken for what it does by itself.

        Parameters
        ----------
        jobs : sequence of mapping
            Of the job types, in their order.
        place : callable
            From worker type, accelerators and the position of the partner, None without one, to
            the placement.
        """
        found: dict[str, SeenInMatrix] = {}
        for (worker, (job_type, scale), partner), rate in self.entries.items():
            row = self._rows[job_type]
            beside = None if isinstance(partner, str) else self._rows[partner[0]]
            if not _own(rate) or not (beside is None or "job_type" in jobs[row]):
                continue
            seen: SeenInMatrix = {
                "job": row,
                "placement": place(worker, scale, beside),
                "batch_size": written_out(jobs[row])["batch_size"],
                "step_time_s": scale / _own(rate),
            }
            # The same placement goes by two names where it is one accelerator.
            found.setdefault(json.dumps(seen, sort_keys=True), seen)
        return list(found.values())

    def table(self) -> Table:
        """Return every entry that is known, in Gavel's form."""
        found: Table = {}
        for (worker, key, partner), rate in self.entries.items():
            found.setdefault(worker, {}).setdefault(key, {})[partner] = rate
        return found

    def failed_alone(self, worker: str, key: Key) -> bool:
        """Return whether a job was measured not to run by itself."""
        return self.entries.get((worker, key, ALONE)) == 0

    def ran_in(
        self, job_type: str, partner: str | Key, memory: Mapping[str, float | None]
    ) -> float | None:
        """Return the least memory in which a job was measured to run, bytes; None if it was not.

        Parameters
        ----------
        partner : str or (str, int)
            The job beside it, on however many accelerators; without one, it may have had any.
        memory : mapping of str to float or None
            Of an accelerator of each worker type.
        """
        beside = None if isinstance(partner, str) else partner[0]
        held = [memory[worker] for worker in self._ran_on.get((job_type, beside), ())]
        return min((one for one in held if one is not None), default=None)

    @cached_property
    def _ran_on(self) -> dict[tuple[str, str | None], set[str]]:
        found: dict[tuple[str, str | None], set[str]] = defaultdict(set)
        for (worker, (job_type, _), partner), rate in self.entries.items():
            if _own(rate):
                found[job_type, None].add(worker)
                if not isinstance(partner, str):
                    found[job_type, partner[0]].add(worker)
        return found

    def _checked(self, measured: AnyTable) -> Iterator[tuple[Entry, Rate]]:
        for worker, jobs in measured.items():
            if worker not in self._workers:
                raise InvalidInputError(
                    f"Rates were measured on the worker type {worker!r}, which the table does not "
                    f"have: {', '.join(self._workers)}. Add it to worker_types, or leave it out."
                )
            for key, partners in jobs.items():
                job_type, scale = self._key(key, worker)
                for partner, rate in partners.items():
                    known = ALONE if partner == ALONE else self._key(partner, worker)
                    where = f"{worker} {(job_type, scale)} {known}"
                    if not isinstance(known, str) and known[1] != scale:
                        raise InvalidInputError(
                            f"Jobs that share accelerators take as many of them; got {where}."
                        )
                    yield (worker, (job_type, scale), known), _rate(rate, where, known == ALONE)

    def _key(self, key: object, worker: str) -> Key:
        is_key = isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int)
        if not is_key or key[1] < 1:  # type: ignore[index]
            raise InvalidInputError(
                f"A job of Gavel's table is its type and its accelerators, such as "
                f"('LM (batch size 20)', 2); got {key!r} on {worker}."
            )
        if key[0] not in self._rows:  # type: ignore[index]
            raise InvalidInputError(
                f"Rates were measured of {key!r} on {worker}, which is not among the jobs: "
                f"{', '.join(self._rows)}. Add it to the jobs, or leave its rates out."
            )
        return key  # type: ignore[return-value]

    def _alike(self, entry: Entry, rate: Rate) -> Iterator[tuple[Entry, Rate]]:
        """Yield the entries that are the same measurement by another name."""
        worker, key, partner = entry
        twin = worker.removesuffix(SPREAD) if worker.endswith(SPREAD) else worker + SPREAD
        names = [worker, twin] if key[1] == 1 and twin in self._workers else [worker]
        for name in names:
            yield (name, key, partner), rate
            if isinstance(rate, list) and not isinstance(partner, str):
                yield (name, partner, key), rate[::-1]


def _own(rate: Rate) -> float:
    return rate[0] if isinstance(rate, list) else rate


def _rate(rate: object, where: str, alone: bool) -> Rate:
    if alone:
        return measured_number(rate, f"The rate of {where}", or_zero=True)
    if not isinstance(rate, list | tuple) or len(rate) != 2:
        raise InvalidInputError(
            f"Two jobs that share accelerators have a pair of rates, [own, partner's]; {where} has "
            f"{rate!r}."
        )
    return [measured_number(one, f"A rate of {where}", or_zero=True) for one in rate]


def read_rates(path: Path) -> Table:
    """Read a file of rates, measured or exported, as Gavel's own reader does.

    Raises
    ------
    InvalidInputError
        It is no such file.
    """
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return {
            worker: {
                ast.literal_eval(key): {
                    other if other == ALONE else ast.literal_eval(other): rate
                    for other, rate in partners.items()
                }
                for key, partners in jobs.items()
            }
            for worker, jobs in told.items()
        }
    except (OSError, ValueError, SyntaxError, AttributeError) as error:
        raise InvalidInputError(
            f"{path} is no table of worker type, job and partner as Gavel reads it: {error!r}."
        ) from error

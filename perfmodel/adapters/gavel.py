"""Gavel: its table of throughputs, predicted.

Gavel reads ``{worker type: {job: {partner: rate}}}`` where a job is a type and a number of
accelerators, ``null`` stands for no partner, and a rate is in steps/s, *added up over all
workers*: four accelerators whose steps take one second have the rate 4. Two jobs on the same
accelerators have a pair of rates, first that of the outer job. Rate 0 means that it does not run.
The worker type ``v100_unconsolidated`` has every accelerator on a host of its own.

What Gavel has measured stands in the table as it was measured, and counts as an observation for the
rest (:mod:`.measured.gavel_rates`).

Reference: stanford-futuredata/gavel, ``scheduler/utils.py`` and ``scheduler/scheduler.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfmodel.adapters.ask import Answers, Cell, JobForm, SeenInMatrix, written_out
from perfmodel.adapters.measured.gavel_rates import (
    ALONE,
    SPREAD,
    AnyTable,
    Entry,
    MeasuredRates,
    Rate,
    Table,
    read_rates,
)
from perfmodel.adapters.spread import of_counts, packed

__all__ = ["GavelJob", "GavelTable", "read_rates", "throughput_table", "workers"]


@dataclass(frozen=True, kw_only=True)
class GavelJob:
    """A job type of Gavel.

    Parameters
    ----------
    job_type : str
        ``"ResNet-50 (batch size 64)"``.
    job : mapping
        The job as the service takes it; its batch size is that of one worker.
    scale_factors : tuple of int
        Accelerators it may run on.
    """

    job_type: str
    job: JobForm
    scale_factors: tuple[int, ...] = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class GavelTable:
    """Rates: measured ones as they are, predicted ones.

    Parameters
    ----------
    rates : dict
        As Gavel holds them in memory: keys are tuples.
    unanswered : tuple of str
        Entries without an answer, or with one that rests on nothing; they are not in the table.
    """

    rates: Table
    unanswered: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, dict[str, dict[str, Rate]]]:
        """Return the table as Gavel keeps it in a file: keys are the text of tuples."""
        return {
            worker: {
                str(key): {str(partner): rate for partner, rate in partners.items()}
                for key, partners in jobs.items()
            }
            for worker, jobs in self.rates.items()
        }

    def write(self, path: Path) -> None:
        """Write the file that ``read_all_throughputs_json_v2`` reads."""
        path.write_text(json.dumps(self.to_json(), indent=1, sort_keys=True) + "\n")


def throughput_table(
    answers: Answers,
    jobs: Sequence[GavelJob],
    worker_types: Mapping[str, str],
    *,
    per_host: int = 8,
    network: str | None = None,
    pairs: bool = True,
    unconsolidated: bool = True,
    observed: AnyTable | None = None,
) -> GavelTable:
    """Predict Gavel's table; one call and one model version for the whole of it.

    Parameters
    ----------
    worker_types : mapping of str to str
        Gavel's name to a name of the catalogue: ``{"v100": "V100-SXM2-16GB"}``.
    pairs : bool
        Also two jobs on the same accelerators, where both take the same number.
    unconsolidated : bool
        Also the worker types with every accelerator on a host of its own.
    observed : mapping or None
        What was measured, in the form of the table: any part of it, as :func:`read_rates` reads
        it. It comes back as it is; rate 0 did not run.

    Raises
    ------
    NoAnswerError
        The service answers nothing at all.
    InvalidInputError
        Measured rates that are none, or of a worker type, job or partner that the table does not
        have.
    """
    measured = measured_rates(jobs, worker_types, unconsolidated, observed)
    layout = _Layout(jobs, worker_types, per_host, network)
    places = _places(layout, pairs, unconsolidated)
    seen = measured.observations([one.job for one in jobs], layout.form)
    cells = _cells(answers, jobs, [place.form for place in places], seen)
    memory = {
        worker: answers.memory_bytes(accelerator)
        for worker, accelerator, _ in workers(worker_types, True)
    }
    rates: Table = {place.worker: {} for place in places}
    for (worker, key, partner), rate in measured.entries.items():
        rates[worker].setdefault(key, {})[partner] = rate
    unanswered = []
    for (worker, key, partner), found in _entries(jobs, places, cells):
        if (worker, key, partner) in measured.entries:
            continue
        ran_in = measured.ran_in(key[0], partner, memory)
        predicted = _predicted(found, key[1], memory[worker], ran_in)
        pair = () if isinstance(partner, str) else (key, partner)
        if any(measured.failed_alone(worker, one) for one in pair):
            predicted = [0.0, 0.0]
        if predicted is None:
            unanswered.append(f"{worker} {key} {partner}")
        else:
            rates[worker].setdefault(key, {})[partner] = predicted
    return GavelTable(rates=rates, unanswered=tuple(unanswered))


def measured_rates(
    jobs: Sequence[GavelJob],
    worker_types: Mapping[str, str],
    unconsolidated: bool,
    observed: AnyTable | None,
) -> MeasuredRates:
    """Return what was measured, checked against what a table is about."""
    return MeasuredRates(
        observed or {},
        [one.job_type for one in jobs],
        [worker for worker, _, _ in workers(worker_types, unconsolidated)],
    )


def _cells(
    answers: Answers,
    jobs: Sequence[GavelJob],
    forms: Sequence[dict[str, Any]],
    seen: Sequence[SeenInMatrix],
) -> list[list[Cell | None]]:
    """Ask for each placement once: one accelerator is the same spread out or not."""
    texts = [json.dumps(form, sort_keys=True) for form in forms]
    distinct = dict(zip(texts, forms, strict=True))
    position = {text: column for column, text in enumerate(distinct)}
    answered = answers.cells([one.job for one in jobs], list(distinct.values()), seen)
    return [[row[position[text]] for text in texts] for row in answered]


class _Layout:
    """Where the jobs of a worker type run."""

    def __init__(
        self,
        jobs: Sequence[GavelJob],
        worker_types: Mapping[str, str],
        per_host: int,
        network: str | None,
    ) -> None:
        self.jobs, self.worker_types = jobs, worker_types
        self._per_host, self._network = per_host, network

    def form(self, worker: str, scale: int, partner: int | None) -> dict[str, Any]:
        """Return the placement of one entry."""
        if worker in self.worker_types:
            form = packed(
                self.worker_types[worker], scale, per_host=self._per_host, network=self._network
            )
        else:
            accelerator = self.worker_types[worker.removesuffix(SPREAD)]
            form = of_counts(accelerator, [1] * scale, network=self._network)
        beside = {} if partner is None else {"shared_with": [written_out(self.jobs[partner].job)]}
        return {**form, **beside}


@dataclass(frozen=True, kw_only=True)
class _Place:
    """One column of the question."""

    worker: str
    scale_factor: int
    partner: int | None
    members: tuple[int, ...]
    form: dict[str, Any]


def _places(layout: _Layout, pairs: bool, unconsolidated: bool) -> list[_Place]:
    jobs, found = layout.jobs, []
    for worker, _, _ in workers(layout.worker_types, unconsolidated):
        for scale in sorted({scale for one in jobs for scale in one.scale_factors}):
            members = tuple(i for i, one in enumerate(jobs) if scale in one.scale_factors)
            found += [
                _Place(
                    worker=worker,
                    scale_factor=scale,
                    partner=partner,
                    members=members,
                    form=layout.form(worker, scale, partner),
                )
                for partner in (None, *(members if pairs else ()))
            ]
    return found


def _entries(
    jobs: Sequence[GavelJob], places: Sequence[_Place], cells: Sequence[Sequence[Cell | None]]
) -> Iterator[tuple[Entry, list[Cell | None]]]:
    """Yield each entry of the table, and the cells of its job and of the partner if it has one."""
    columns = {(p.worker, p.scale_factor, p.partner): column for column, p in enumerate(places)}
    for column, place in enumerate(places):
        worker, scale, beside = place.worker, place.scale_factor, place.partner
        for row in place.members:
            key, own = (jobs[row].job_type, scale), cells[row][column]
            if beside is None:
                yield (worker, key, ALONE), [own]
            else:
                other = cells[beside][columns[worker, scale, row]]
                yield (worker, key, (jobs[beside].job_type, scale)), [own, other]


def workers(
    worker_types: Mapping[str, str], unconsolidated: bool
) -> Iterator[tuple[str, str, bool]]:
    """Yield each worker type of a table, its accelerator, and whether it is spread over hosts."""
    for worker, accelerator in worker_types.items():
        yield worker, accelerator, False
    if unconsolidated:
        for worker, accelerator in worker_types.items():
            yield worker + SPREAD, accelerator, True


def _predicted(
    cells: Sequence[Cell | None], scale_factor: int, capacity: float | None, ran_in: float | None
) -> Rate | None:
    """Return the rate of a job alone, or those of a pair; 0 where the memory does not hold them.

    Every worker's steps are counted, so that the rate is that of all of them.

    Parameters
    ----------
    cells : sequence of Cell or None
        Of the job, and of its partner where it has one.
    ran_in : float or None
        Memory in which they were measured to run: as much holds them, whatever is predicted.
    """
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(cells):
        return None
    held = [cell.peak_bytes for cell in known if cell.peak_bytes is not None]
    fits = capacity is None or len(held) < len(known) or sum(held) <= capacity
    fits = fits and all(cell.fits is not False for cell in known)
    if ran_in is not None and (capacity is None or ran_in <= capacity):
        fits = True
    rates = [scale_factor / cell.step_time_s if fits else 0.0 for cell in known]
    return rates[0] if len(rates) == 1 else rates

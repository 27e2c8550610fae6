"""Gavel: its table of throughputs, predicted.

Gavel reads ``{worker type: {job: {partner: rate}}}`` where a job is a type and a number of
accelerators, ``null`` stands for no partner, and a rate is in steps/s, *added up over all
workers*: four accelerators whose steps take one second have the rate 4. Two jobs on the same
accelerators have a pair of rates, first that of the outer job. Rate 0 means that it does not run.
The worker type ``v100_unconsolidated`` has every accelerator on a host of its own.

Reference: stanford-futuredata/gavel, ``scheduler/utils.py`` and ``scheduler/scheduler.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfmodel.adapters.ask import Answers, Cell, JobForm
from perfmodel.adapters.spread import of_counts, packed

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
    """Predicted rates.

    Parameters
    ----------
    rates : dict
        As Gavel holds them in memory: keys are tuples.
    unanswered : tuple of str
        Entries without an answer; they are not in the table.
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
    """
    places = _places(jobs, worker_types, per_host, network, pairs, unconsolidated)
    cells = _cells(answers, jobs, [place.form for place in places])
    memory = {name: answers.memory_bytes(name) for name in set(worker_types.values())}
    columns = {(p.worker, p.scale_factor, p.partner): column for column, p in enumerate(places)}
    rates: Table = {place.worker: {} for place in places}
    unanswered = []
    for column, place in enumerate(places):
        for row in place.members:
            own, scale = cells[row][column], place.scale_factor
            key = (jobs[row].job_type, scale)
            partner: str | Key = ALONE
            rate: Rate | None = _alone(own, scale)
            if place.partner is not None:
                other = cells[place.partner][columns[place.worker, scale, row]]
                partner = (jobs[place.partner].job_type, scale)
                rate = _paired(own, other, scale, memory[place.accelerator])
            if rate is None:
                unanswered.append(f"{place.worker} {key} {partner}")
            else:
                rates[place.worker].setdefault(key, {})[partner] = rate
    return GavelTable(rates=rates, unanswered=tuple(unanswered))


def _cells(
    answers: Answers, jobs: Sequence[GavelJob], forms: Sequence[dict[str, Any]]
) -> list[list[Cell | None]]:
    """Ask for each placement once: one accelerator is the same spread out or not."""
    texts = [json.dumps(form, sort_keys=True) for form in forms]
    distinct = dict(zip(texts, forms, strict=True))
    position = {text: column for column, text in enumerate(distinct)}
    answered = answers.cells([one.job for one in jobs], list(distinct.values()))
    return [[row[position[text]] for text in texts] for row in answered]


@dataclass(frozen=True, kw_only=True)
class _Place:
    """One column of the question."""

    worker: str
    accelerator: str
    scale_factor: int
    partner: int | None
    members: tuple[int, ...]
    form: dict[str, Any]


def _places(
    jobs: Sequence[GavelJob],
    worker_types: Mapping[str, str],
    per_host: int,
    network: str | None,
    pairs: bool,
    unconsolidated: bool,
) -> list[_Place]:
    found = []
    for worker, accelerator, spread in workers(worker_types, unconsolidated):
        for scale in sorted({scale for one in jobs for scale in one.scale_factors}):
            members = tuple(i for i, one in enumerate(jobs) if scale in one.scale_factors)
            if spread:
                form = of_counts(accelerator, [1] * scale, network=network)
            else:
                form = packed(accelerator, scale, per_host=per_host, network=network)
            for partner in (None, *(members if pairs else ())):
                beside = {} if partner is None else {"shared_with": [dict(jobs[partner].job)]}
                found.append(
                    _Place(
                        worker=worker,
                        accelerator=accelerator,
                        scale_factor=scale,
                        partner=partner,
                        members=members,
                        form={**form, **beside},
                    )
                )
    return found


def workers(
    worker_types: Mapping[str, str], unconsolidated: bool
) -> Iterator[tuple[str, str, bool]]:
    """Yield each worker type of a table, its accelerator, and whether it is spread over hosts."""
    for worker, accelerator in worker_types.items():
        yield worker, accelerator, False
    if unconsolidated:
        for worker, accelerator in worker_types.items():
            yield worker + SPREAD, accelerator, True


def _alone(cell: Cell | None, scale_factor: int) -> float | None:
    """Every worker's steps are counted, so that the rate is that of all of them."""
    if cell is None:
        return None
    return 0.0 if cell.fits is False else scale_factor / cell.step_time_s


def _paired(
    own: Cell | None, other: Cell | None, scale_factor: int, capacity: float | None
) -> list[float] | None:
    if own is None or other is None:
        return None
    if capacity is None or own.peak_bytes is None or other.peak_bytes is None:
        too_large = False
    else:
        too_large = own.peak_bytes + other.peak_bytes > capacity
    if too_large or own.fits is False or other.fits is False:
        return [0.0, 0.0]
    return [scale_factor / own.step_time_s, scale_factor / other.step_time_s]

"""ElasticFlow: a CSV of throughputs for each model.

``<model>.csv`` has a row for each global batch size and a column for each number of GPUs; a cell
is in iterations/s. The global batch stays what it is, so that a replica gets less of it the more
there are. Where a replica's share does not fit its memory, it is taken in micro-batches. Where
there are more GPUs than samples, or the batch cannot be dealt out to them in whole samples, the
cell repeats that of the largest number that can: more bring nothing.

Reference: pkusys/ElasticFlow, ``ElasticFlow/scheduler/profiles.py``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perfmodel.adapters.ask import Answers, Cell, JobForm
from perfmodel.adapters.spread import packed

#: Numbers of micro-batches that are tried, fewest first.
_MICRO_BATCHES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, kw_only=True)
class ElasticFlowTable:
    """The throughputs of one model.

    Parameters
    ----------
    counts : tuple of int
        GPUs, ascending.
    rows : mapping of int to tuple of float
        Iterations/s at each count, by global batch size.
    unanswered : tuple of str
        Global batch sizes that are left out, with the reason.
    """

    counts: tuple[int, ...]
    rows: Mapping[int, tuple[float, ...]]
    unanswered: tuple[str, ...] = field(default=())

    def to_csv(self) -> str:
        """Return the text of ``<model>.csv``."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["global_batch_size", *self.counts])
        for global_batch_size, rates in self.rows.items():
            writer.writerow([global_batch_size, *(repr(rate) for rate in rates)])
        return text.getvalue()


def throughputs(
    answers: Answers,
    job: JobForm,
    accelerator: str,
    *,
    global_batch_sizes: Sequence[int],
    counts: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    per_host: int = 8,
    network: str | None = None,
) -> ElasticFlowTable:
    """Predict ElasticFlow's table of one model."""
    counts = sorted(set(counts))
    asked = {
        (size, count, micro): {
            **job,
            "batch_size": size // (count * micro),
            "accumulation_steps": micro,
        }
        for size in global_batch_sizes
        for count in counts
        for micro in _MICRO_BATCHES
        if size % (count * micro) == 0
    }
    jobs = _distinct(list(asked.values()))
    places = [packed(accelerator, n, per_host=per_host, network=network) for n in counts]
    cells = answers.cells(jobs, places)
    column = {count: position for position, count in enumerate(counts)}
    known = {key: cells[jobs.index(form)][column[key[1]]] for key, form in asked.items()}
    rows, unanswered = {}, []
    for size in global_batch_sizes:
        row = _row(size, counts, known)
        if row is None:
            unanswered.append(f"{size}: no answer, or it fits on {counts[0]} in no micro-batches")
        else:
            rows[size] = row
    return ElasticFlowTable(counts=tuple(counts), rows=rows, unanswered=tuple(unanswered))


def _distinct(forms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for form in forms:
        if form not in found:
            found.append(form)
    return found


def _row(
    size: int, counts: Sequence[int], known: Mapping[tuple[int, int, int], Cell | None]
) -> tuple[float, ...] | None:
    rates: list[float] = []
    for count in counts:
        tried = [known.get((size, count, micro)) for micro in _MICRO_BATCHES]
        fitting = [one for one in tried if one is not None and one.fits is not False]
        if fitting:
            rates.append(1.0 / fitting[0].step_time_s)
        elif rates and size % count:
            rates.append(rates[-1])
        else:
            return None
    return tuple(rates)

"""ElasticFlow: a CSV of throughputs for each model.

``<model>.csv`` has a row for each global batch size and a column for each number of GPUs; a cell
is in iterations/s. The global batch stays what it is, so that a replica gets less of it the more
there are. Where a replica's share does not fit its memory, it is taken in micro-batches. Where
there are more GPUs than samples, or the batch cannot be dealt out to them in whole samples, the
cell repeats that of the largest number that can: more bring nothing.

What was measured stands in its cell as it was measured, and counts as an observation for the rest.

Reference: pkusys/ElasticFlow, ``ElasticFlow/scheduler/profiles.py``.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfmodel.adapters.ask import Answers, Cell, JobForm, SeenInMatrix, written_out
from perfmodel.adapters.measured.numbers import measured_number, stated_count
from perfmodel.adapters.spread import packed
from perfmodel.errors import InvalidInputError

#: What stands above the first column.
_CORNER = "global_batch_size"
#: Numbers of micro-batches that are tried, fewest first.
_MICRO_BATCHES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, kw_only=True)
class ElasticFlowTable:
    """The throughputs of one model: measured ones as they are, predicted ones.

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
        writer.writerow([_CORNER, *self.counts])
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
    observed: Mapping[tuple[int, int], float] = MappingProxyType({}),
) -> ElasticFlowTable:
    """Predict ElasticFlow's table of one model.

    Parameters
    ----------
    observed : mapping of (int, int) to float
        Measured iterations/s by global batch size and number of GPUs; any cells of the table.

    Raises
    ------
    NoAnswerError
        The service answers nothing at all.
    InvalidInputError
        Counts or batches that are none, a measured cell that the table does not have, or a rate
        that is none.
    """
    counts = sorted({stated_count(count, "A number of GPUs") for count in counts})
    global_batch_sizes = [stated_count(size, "A global batch") for size in global_batch_sizes]
    per_host = stated_count(per_host, "per_host")
    measured = _measured(observed, global_batch_sizes, counts)
    places = [packed(accelerator, n, per_host=per_host, network=network) for n in counts]
    asked = _dealt_out(job, global_batch_sizes, counts)
    jobs = _distinct(list(asked.values()))
    column = {count: position for position, count in enumerate(counts)}
    seen: list[SeenInMatrix] = [
        {
            "job": jobs.index(asked[size, count, 1]),
            "placement": places[column[count]],
            "batch_size": size // count,
            "accumulation_steps": 1,
            "step_time_s": 1.0 / rate,
        }
        for (size, count), rate in measured.items()
        # What cannot be dealt out is nobody's step.
        if size % count == 0
    ]
    cells = answers.cells(jobs, places, seen)
    known = {key: cells[jobs.index(form)][column[key[1]]] for key, form in asked.items()}
    rows, unanswered = {}, []
    for size in global_batch_sizes:
        row = _row(size, counts, known, measured)
        if isinstance(row, int):
            unanswered.append(f"{size}: no answer, or it fits on {row} in no micro-batches")
        else:
            rows[size] = row
    return ElasticFlowTable(counts=tuple(counts), rows=rows, unanswered=tuple(unanswered))


def _dealt_out(
    job: JobForm, global_batch_sizes: Sequence[int], counts: Sequence[int]
) -> dict[tuple[int, int, int], dict[str, Any]]:
    """Return the job by each batch, count and number of micro-batches that deals it out evenly."""
    return {
        (size, count, micro): written_out(
            job, batch_size=size // (count * micro), accumulation_steps=micro
        )
        for size in global_batch_sizes
        for count in counts
        for micro in _MICRO_BATCHES
        if size % (count * micro) == 0
    }


def read_throughputs(path: Path) -> dict[tuple[int, int], float]:
    """Read ``<model>.csv``, measured or exported; empty cells were not measured.

    Raises
    ------
    InvalidInputError
        It is no such file.
    """
    try:
        # With the mark that spreadsheets put before what they write.
        with path.open(newline="", encoding="utf-8-sig") as file:
            first, *rows = [row for row in csv.reader(file) if row]
        if first[0] != _CORNER:
            raise ValueError(f"the first column is {first[0]!r}")
        found: dict[tuple[int, int], float] = {}
        for row in rows:
            for count, rate in zip(first[1:], row[1:], strict=True):
                cell = int(row[0]), int(count)
                if rate and cell in found:
                    raise ValueError(f"{cell[0]} on {cell[1]} GPUs stands there twice")
                if rate:
                    found[cell] = float(rate)
        return found
    except (OSError, ValueError, IndexError) as error:
        raise InvalidInputError(
            f"{path} is no table of {_CORNER} and numbers of GPUs as ElasticFlow reads it: "
            f"{error!r}."
        ) from error


def _measured(
    observed: Mapping[tuple[int, int], float], sizes: Sequence[int], counts: Sequence[int]
) -> dict[tuple[int, int], float]:
    found = {}
    for cell, rate in observed.items():
        if not isinstance(cell, tuple) or len(cell) != 2:
            raise InvalidInputError(
                f"A measured cell is a global batch and a number of GPUs, as (64, 2); got {cell!r}."
            )
        size, count = cell
        if size not in sizes or count not in counts:
            raise InvalidInputError(
                f"The global batch of {size} was measured on {count} GPUs, which is no cell of the "
                f"table: {list(sizes)} on {list(counts)}. Add it to those, or leave it out."
            )
        found[cell] = measured_number(rate, f"The rate of a global batch of {size} on {count} GPUs")
    return found


def _distinct(forms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for form in forms:
        if form not in found:
            found.append(form)
    return found


def _row(
    size: int,
    counts: Sequence[int],
    known: Mapping[tuple[int, int, int], Cell | None],
    measured: Mapping[tuple[int, int], float],
) -> tuple[float, ...] | int:
    """Return the rates of a batch size on all counts, or the first count without one."""
    rates: list[float] = []
    for count in counts:
        tried = [known.get((size, count, micro)) for micro in _MICRO_BATCHES]
        fitting = [one for one in tried if one is not None and one.fits is not False]
        if (size, count) in measured:
            rates.append(measured[size, count])
        elif fitting:
            rates.append(1.0 / fitting[0].step_time_s)
        elif rates and size % count:
            rates.append(rates[-1])
        else:
            return count
    return tuple(rates)

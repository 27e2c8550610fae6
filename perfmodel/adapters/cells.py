"""One answer of a matrix as adapters need it, and the reader of whole matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perfmodel.client.answers import Matrix

Rows = Sequence[Sequence[Any]]

_NEEDED = ("samples_per_second", "step_time_s", "peak_bytes", "fits")
#: What a service may leave out.
_PARTS = ("compute_time_s", "sync_time_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What is known of one job on one placement.

    Parameters
    ----------
    samples_per_second : float
        Of all accelerators, > 0.
    step_time_s : float
        Of a whole step, > 0.
    compute_time_s, sync_time_s : float or None
        Of it, what computes and what synchronises; they may overlap. None where it is not known.
    peak_bytes : float or None
        Memory of one accelerator.
    fits : bool or None
        Whether that is there; None where it is not known.
    """

    samples_per_second: float
    step_time_s: float
    compute_time_s: float | None = None
    sync_time_s: float | None = None
    peak_bytes: float | None = None
    fits: bool | None = None


def read_matrix(answer: Matrix, jobs: int, placements: int) -> list[list[Cell | None]]:
    """Read the columns of a matrix that came over the wire, trusting no number.

    Parameters
    ----------
    jobs, placements : int
        What was asked.

    Returns
    -------
    list of list
        None for cells without an answer.

    Raises
    ------
    ValueError
        Not a matrix of that shape, or numbers that cannot be.
    """
    names = (*_NEEDED, *(name for name in _PARTS if getattr(answer, name)))
    columns = [_rows(getattr(answer, name), name, jobs, placements) for name in names]
    return [
        [
            _cell(dict(zip(names, values, strict=True)))
            for values in zip(*(column[row] for column in columns), strict=True)
        ]
        for row in range(jobs)
    ]


def _rows(column: Rows, name: str, jobs: int, placements: int) -> Rows:
    if len(column) != jobs or not all(len(row) == placements for row in column):
        raise ValueError(f"{name} is no table of {jobs} x {placements}")
    return column


def _cell(values: dict[str, Any]) -> Cell | None:
    rate, step_time_s = values["samples_per_second"], values["step_time_s"]
    if rate is None or step_time_s is None:
        return None
    if not (_is_above_zero(rate) and _is_above_zero(step_time_s)):
        raise ValueError(f"{rate!r} samples/s in steps of {step_time_s!r} s cannot be")
    parts = {name: values.get(name) for name in _PARTS}
    if not all(part is None or 0 <= part < math.inf for part in parts.values()):
        raise ValueError(f"a step of {step_time_s!r} s cannot have the parts {parts}")
    peak_bytes = values["peak_bytes"]
    return Cell(
        samples_per_second=rate,
        step_time_s=step_time_s,
        **parts,
        peak_bytes=peak_bytes if _is_above_zero(peak_bytes) else None,
        fits=values["fits"],
    )


def _is_above_zero(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0

"""One answer of a matrix as adapters need it, and the reader of whole matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What is known of one job on one placement.

    Parameters
    ----------
    samples_per_second : float
        Of all accelerators, > 0.
    step_time_s : float
        Of a whole step, > 0.
    peak_bytes : float or None
        Memory of one accelerator.
    fits : bool or None
        Whether that is there; None where it is not known.
    """

    samples_per_second: float
    step_time_s: float
    peak_bytes: float | None = None
    fits: bool | None = None


def read_matrix(answer: Any, jobs: int, placements: int) -> list[list[Cell | None]]:
    """Read the columns of a matrix that came over the wire, trusting nothing.

    Parameters
    ----------
    answer : JSON value
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

    Examples
    --------
    >>> read_matrix({"samples_per_second": [[8.0]], "step_time_s": [[0.5]],
    ...              "peak_bytes": [[None]], "fits": [[True]]}, 1, 1)[0][0].step_time_s
    0.5
    """
    if not isinstance(answer, dict):
        raise ValueError("it is no object")
    names = ("samples_per_second", "step_time_s", "peak_bytes", "fits")
    columns = [_rows(answer.get(name), name, jobs, placements) for name in names]
    return [
        [_cell(*values) for values in zip(*(column[row] for column in columns), strict=True)]
        for row in range(jobs)
    ]


def _rows(column: Any, name: str, jobs: int, placements: int) -> list[list[Any]]:
    if (
        not isinstance(column, list)
        or len(column) != jobs
        or not all(isinstance(row, list) and len(row) == placements for row in column)
    ):
        raise ValueError(f"{name} is no table of {jobs} x {placements}")
    return column


def _cell(rate: Any, step_time_s: Any, peak_bytes: Any, fits: Any) -> Cell | None:
    if rate is None or step_time_s is None:
        return None
    if not (_is_above_zero(rate) and _is_above_zero(step_time_s)):
        raise ValueError(f"{rate!r} samples/s in steps of {step_time_s!r} s cannot be")
    return Cell(
        samples_per_second=float(rate),
        step_time_s=float(step_time_s),
        peak_bytes=float(peak_bytes) if _is_above_zero(peak_bytes) else None,
        fits=fits if isinstance(fits, bool) else None,
    )


def _is_above_zero(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0

"""Every pair of some jobs and some placements: the table that all answers are read off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.errors import PerfModelError
from perfmodel.features.arrays import FloatArray
from perfmodel.types import LADDER


@dataclass(frozen=True, kw_only=True, slots=True)
class CellError:
    """Why a row, a column or a cell has no answer.

    Parameters
    ----------
    job, placement : int or None
        Position in the request; None means all of them.
    """

    job: int | None
    placement: int | None
    error: PerfModelError


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Answers in columns: each array has a row for each job and a column for each placement.

    Parameters
    ----------
    samples_per_second, low, high : ndarray
        NaN where there is no answer.
    step_time_s, peak_bytes : ndarray
        NaN where there is no answer.
    compute_time_s, sync_time_s : ndarray
        The parts of the step that compute and that synchronise, as those of a single answer; they
        may overlap. NaN where there is no answer.
    basis : ndarray of int
        Position on the ladder of evidence, -1 where there is no answer.
    out_of_distribution, fits, answered : ndarray of bool
    coverage : float or None
        Of the intervals; the least over all cells, None where none was answered.
    unpriced_operators : tuple
        For each job its operators without a cost formula, None where the job has no graph.
    warnings : tuple of str
        Each text once, whichever cell it belongs to.
    """

    samples_per_second: FloatArray
    low: FloatArray
    high: FloatArray
    step_time_s: FloatArray
    compute_time_s: FloatArray
    sync_time_s: FloatArray
    peak_bytes: FloatArray
    basis: npt.NDArray[np.int8]
    out_of_distribution: npt.NDArray[np.bool_]
    fits: npt.NDArray[np.bool_]
    answered: npt.NDArray[np.bool_]
    coverage: float | None
    model_version: str | None
    unpriced_operators: tuple[dict[str, int] | None, ...]
    errors: tuple[CellError, ...]
    warnings: tuple[str, ...]


#: Columns of numbers of a :class:`Table`.
NUMBERS = (
    "samples_per_second", "low", "high", "step_time_s", "compute_time_s", "sync_time_s",
    "peak_bytes",
)  # fmt: skip


def basis_names(basis: npt.NDArray[np.int8]) -> list[list[str | None]]:
    """Return the rungs of a table by name, None where there is no answer."""
    names: list[str | None] = [rung.value for rung in LADDER]
    names.append(None)  # position -1
    return [[names[rung] for rung in row] for row in basis.tolist()]

"""Answers from an estimator in this process, for exports without a running service."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from perfmodel.adapters.ask import JobForm, PlacementForm
from perfmodel.adapters.cells import Cell
from perfmodel.errors import PerfModelError, UnknownAcceleratorError
from perfmodel.graph.job_form import parse_job
from perfmodel.placement.topology.parse import parse_placement

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator

T = TypeVar("T")


class LocalAnswers:
    """An estimator as something that adapters ask.

    Parameters
    ----------
    estimator : Estimator
    """

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator

    def cells(
        self, jobs: Sequence[JobForm], placements: Sequence[PlacementForm]
    ) -> list[list[Cell | None]]:
        """Return a cell for each job and placement; None where there is no answer."""
        matrix = self._estimator.matrix(
            [_attempt(parse_job, job) for job in jobs],
            [_attempt(parse_placement, placement) for placement in placements],
        )
        columns = (matrix.samples_per_second, matrix.step_time_s, matrix.peak_bytes, matrix.fits)
        answered = matrix.answered.tolist()
        return [
            [
                _cell(*values) if known else None
                for known, *values in zip(
                    answered[row], *(c[row].tolist() for c in columns), strict=True
                )
            ]
            for row in range(len(jobs))
        ]

    def memory_bytes(self, accelerator: str) -> float | None:
        """Return the memory of an accelerator by name or alias; None where it is not known."""
        try:
            return self._estimator.accelerators.get(accelerator).memory_bytes
        except UnknownAcceleratorError:
            return None


def _attempt(read: Callable[[Any], T], value: Any) -> T | PerfModelError:
    try:
        return read(value)
    except PerfModelError as error:
        return error


def _cell(rate: float, step_time_s: float, peak_bytes: float, fits: bool) -> Cell:
    known = math.isfinite(peak_bytes)
    return Cell(
        samples_per_second=rate,
        step_time_s=step_time_s,
        peak_bytes=peak_bytes if known else None,
        fits=fits if known else None,
    )

"""Answers from an estimator in this process, for exports without a running service."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from perfmodel.adapters.ask import Cell, JobForm, PlacementForm
from perfmodel.errors import PerfModelError, UnknownAcceleratorError
from perfmodel.graph.job_form import parse_job
from perfmodel.placement.topology.parse import parse_placement

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator

T = TypeVar("T")

#: What is taken over from a matrix: the fields of a cell.
_COLUMNS = tuple(field.name for field in fields(Cell))


class LocalAnswers:
    """An estimator as something that adapters ask."""

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
        columns = [getattr(matrix, name) for name in _COLUMNS]
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


def _cell(*values: Any) -> Cell:
    known = dict(zip(_COLUMNS, values, strict=True))
    if not math.isfinite(known["peak_bytes"]):
        # Of a memory that is not known, a matrix says that it keeps no job away.
        known["peak_bytes"] = known["fits"] = None
    return Cell(**known)

"""Answers from an estimator in this process, for exports without a running service."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from perfmodel.adapters.ask import (
    Cell,
    JobForm,
    NoAnswerError,
    PlacementForm,
    SeenInMatrix,
    log_problems,
    log_warnings,
)
from perfmodel.errors import InvalidInputError, PerfModelError, UnknownAcceleratorError
from perfmodel.graph.job_form import parse_job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_matrix_observations, read_by_job
from perfmodel.types import LADDER, Basis

if TYPE_CHECKING:
    from perfmodel.estimator import Estimator

T = TypeVar("T")

#: What is taken over from a matrix: the fields of a cell.
_NUMBERS = tuple(field.name for field in fields(Cell) if field.name != "basis")


class LocalAnswers:
    """An estimator as something that adapters ask."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._said: set[str] = set()

    def cells(
        self,
        jobs: Sequence[JobForm],
        placements: Sequence[PlacementForm],
        observations: Sequence[SeenInMatrix] = (),
    ) -> list[list[Cell | None]]:
        """Return cells as :meth:`.ask.Answers.cells`.

        Raises
        ------
        NoAnswerError
            Observations that cannot be read.
        """
        read = [_attempt(parse_job, job) for job in jobs]
        try:
            seen = read_by_job(parse_matrix_observations(list(observations), len(jobs)), read)
        except InvalidInputError as error:
            raise NoAnswerError(f"The observations cannot be read: {error}") from error
        matrix = self._estimator.matrix(
            read,
            [_attempt(parse_placement, placement) for placement in placements],
            seen,
        )
        log_problems((one.job, str(one.error)) for one in matrix.errors)
        log_warnings(matrix.warnings, self._said)
        table = {name: getattr(matrix, name).tolist() for name in _NUMBERS}
        table["basis"] = [[LADDER[at] if at >= 0 else None for at in row] for row in matrix.basis]
        return [
            [
                _cell(dict(zip(table, values, strict=True)))
                for values in zip(*(column[row] for column in table.values()), strict=True)
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


def _cell(known: dict[str, Any]) -> Cell | None:
    if known["basis"] in (None, Basis.DEFAULT):
        return None
    if not math.isfinite(known["peak_bytes"]):
        # Of a memory that is not known, a matrix says that it keeps no job away, or ran out.
        known["peak_bytes"], known["fits"] = None, None if known["fits"] else False
    return Cell(**known)

"""Read the body of ``POST /v1/matrix``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perfmodel.errors import InvalidInputError, UnknownFieldError
from perfmodel.placement.calibration.observation import Observation
from perfmodel.requests import parse_observations

_FIELDS = ("jobs", "placements", "observations")


@dataclass(frozen=True, kw_only=True)
class AskedMatrix:
    """Jobs and placements as they were written, and what was observed.

    Parameters
    ----------
    jobs, placements : list
        Not read yet: one that cannot be costs its own cells only.
    observations : dict of int to tuple of Observation
        By position of their job.
    """

    jobs: list[Any]
    placements: list[Any]
    observations: dict[int, tuple[Observation, ...]]

    def rows(self, positions: Sequence[int]) -> AskedMatrix:
        """Return the question about some of the jobs."""
        seen = {row: self.observations.get(position) for row, position in enumerate(positions)}
        return AskedMatrix(
            jobs=[self.jobs[position] for position in positions],
            placements=self.placements,
            observations={row: found for row, found in seen.items() if found},
        )


def read_matrix(question: Any, *, max_cells: int) -> AskedMatrix:
    """Read a question about every pair of some jobs and some placements.

    Parameters
    ----------
    question : object
        Decoded JSON.

    Raises
    ------
    InvalidInputError
        A list that is missing or empty, an observation of no job, or too many cells.
    """
    jobs, placements = _lists(question)
    cells = len(jobs) * len(placements)
    if cells > max_cells:
        raise InvalidInputError(
            f"{len(jobs)} jobs x {len(placements)} placements are {cells} cells; at most "
            f"{max_cells} are answered at a time. Send fewer."
        )
    observations = _observations(question.get("observations"), len(jobs))
    return AskedMatrix(jobs=jobs, placements=placements, observations=observations)


def _lists(question: Any) -> tuple[list[Any], list[Any]]:
    if not isinstance(question, dict):
        raise InvalidInputError("A matrix request must be an object.")
    for name in question:
        if name not in _FIELDS:
            raise UnknownFieldError(name, known=_FIELDS, pointer=f"/{name}")
    lists = [question.get(name) for name in ("jobs", "placements")]
    for name, value in zip(("jobs", "placements"), lists, strict=True):
        if not isinstance(value, list) or not value:
            raise InvalidInputError(f"{name} must be a list that is not empty.", pointer=f"/{name}")
    return lists[0] or [], lists[1] or []


def _observations(written: Any, jobs: int) -> dict[int, tuple[Observation, ...]]:
    """Read the observations of a matrix: those of :func:`parse_observations`, each with its job."""
    found: dict[int, tuple[Observation, ...]] = {}
    if written is None:
        return found
    if not isinstance(written, list):
        raise InvalidInputError("observations must be a list.", pointer="/observations")
    for position, item in enumerate(written):
        at = f"/observations/{position}"
        job = item.get("job") if isinstance(item, dict) else None
        if not isinstance(job, int) or isinstance(job, bool) or not 0 <= job < jobs:
            raise InvalidInputError(
                f"job is the position of the observed job in jobs, from 0 to {jobs - 1}.",
                pointer=f"{at}/job",
            )
        plain = {name: value for name, value in item.items() if name != "job"}
        found[job] = (*found.get(job, ()), *parse_observations([plain], pointer=at))
    return found

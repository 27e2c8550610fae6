"""Ask the service from within a scheduler: standard library only, one deadline, no surprises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from perfmodel.adapters.cells import Cell, read_matrix
from perfmodel.client import Client, NoAnswerError
from perfmodel.client.records import Accelerators

__all__ = ["Answers", "JobForm", "NoAnswerError", "PlacementForm", "Service"]

#: A job as JSON, and a placement in either form.
JobForm = Mapping[str, Any]
PlacementForm = str | Mapping[str, Any]


class Answers(Protocol):
    """Whoever answers questions: the service, or an estimator in this process."""

    def cells(
        self, jobs: Sequence[JobForm], placements: Sequence[PlacementForm]
    ) -> list[list[Cell | None]]:
        """Return a cell for each job and placement; None where there is no answer."""
        ...

    def memory_bytes(self, accelerator: str) -> float | None:
        """Return the memory of an accelerator by name or alias; None where it is not known."""
        ...


class Service:
    """A running service, asked over HTTP.

    Parameters
    ----------
    url : str
        ``"http://127.0.0.1:8000"``.
    timeout_s : float
        For a whole question, from connecting to the last byte of the answer.
    key : str or None
        API key.
    rest_s : float
        After a question without an answer, how long none is asked; the scheduler then waits for
        nothing.

    Raises
    ------
    InvalidInputError
        A URL that is none.
    """

    def __init__(
        self, url: str, *, timeout_s: float = 5.0, key: str | None = None, rest_s: float = 10.0
    ) -> None:
        # A scheduler asks again by itself; what is waited for between is lost to it.
        self._client = Client(url, api_key=key, timeout_s=timeout_s, retries=0, rest_s=rest_s)
        self._catalogue: Accelerators | None = None

    def cells(
        self, jobs: Sequence[JobForm], placements: Sequence[PlacementForm]
    ) -> list[list[Cell | None]]:
        """Return a cell for each job and placement, from one call and one model version.

        Raises
        ------
        NoAnswerError
            No usable answer in time.
        """
        answer = self._client.matrix(jobs, placements)
        try:
            return read_matrix(answer, len(jobs), len(placements))
        except ValueError as error:
            raise NoAnswerError(f"The answer of /v1/matrix cannot be used: {error}.") from error

    def memory_bytes(self, accelerator: str) -> float | None:
        """Return the memory of an accelerator by name or alias; None where it is not known.

        Raises
        ------
        NoAnswerError
            No usable answer in time.
        """
        if self._catalogue is None:
            self._catalogue = self._client.accelerators()
        found = self._catalogue.named(accelerator)
        return None if found is None else found.memory_bytes

"""Ask the service from within a scheduler: standard library only, one deadline, no surprises."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from perfmodel.adapters.cells import Cell, read_matrix
from perfmodel.adapters.exchange import FAILED, exchange, split_url
from perfmodel.errors import PerfModelError

#: A job as JSON, and a placement in either form.
JobForm = Mapping[str, Any]
PlacementForm = str | Mapping[str, Any]


class NoAnswerError(PerfModelError):
    """The service gave no answer that can be used: down, slow, refusing or garbage.

    Adapters catch it and let the scheduler go on.
    """


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
        self._base = split_url(url)
        self._timeout_s = timeout_s
        self._headers = {"Accept": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._rest_s = rest_s
        self._silent_until = 0.0
        self._memory: dict[str, float] | None = None

    def post(self, path: str, body: Any) -> Any:
        """Ask a question.

        Parameters
        ----------
        path : str
            ``"/v1/predict"``.
        body : JSON value

        Returns
        -------
        JSON value

        Raises
        ------
        NoAnswerError
            No usable answer in time.
        """
        return self._ask("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        """Ask for what the service lists; as :meth:`post`."""
        return self._ask("GET", path, None)

    def cells(
        self, jobs: Sequence[JobForm], placements: Sequence[PlacementForm]
    ) -> list[list[Cell | None]]:
        """Return a cell for each job and placement, from one call and one model version."""
        body = {"jobs": list(jobs), "placements": list(placements)}
        answer = self.post("/v1/matrix", body)
        try:
            return read_matrix(answer, len(jobs), len(placements))
        except ValueError as error:
            raise NoAnswerError(f"The answer of /v1/matrix cannot be used: {error}.") from error

    def memory_bytes(self, accelerator: str) -> float | None:
        """Return the memory of an accelerator by name or alias; None where it is not known."""
        if self._memory is None:
            try:
                listed = self.get("/v1/accelerators")["accelerators"]
                self._memory = {
                    name.casefold(): float(one["memory_bytes"])
                    for one in listed
                    for name in (one["name"], *one["aliases"])
                }
            except (KeyError, TypeError, ValueError) as error:
                raise NoAnswerError(f"The catalogue cannot be read: {error!r}.") from error
        return self._memory.get(accelerator.casefold())

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        now = time.monotonic()
        if now < self._silent_until:
            raise NoAnswerError(
                f"The service gave no answer a moment ago; asked again in "
                f"{self._silent_until - now:.0f} s."
            )
        try:
            return self._exchange(method, path, body)
        except _RefusedError as error:
            raise NoAnswerError(str(error)) from None  # it works, only not for this question
        except FAILED as error:
            self._silent_until = time.monotonic() + self._rest_s
            raise NoAnswerError(
                f"No answer from {self._base.netloc}{path} within {self._timeout_s:g} s: {error!r}"
            ) from error

    def _exchange(self, method: str, path: str, body: bytes | None) -> Any:
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        status, content = exchange(
            method, self._base, path, body, timeout_s=self._timeout_s, headers=headers
        )
        if 400 <= status < 500:
            raise _RefusedError(f"{path} answered {status}: {content[:500]!r}")
        if status != 200:
            raise ValueError(f"status {status}")
        return json.loads(content)


class _RefusedError(Exception):
    """The service answered that the question is wrong."""

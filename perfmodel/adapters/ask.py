"""Ask the service from within a scheduler: standard library only, one deadline, no surprises."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from perfmodel.adapters.cells import Cell, read_matrix
from perfmodel.errors import InvalidInputError, PerfModelError

#: A job as JSON, and a placement in either form.
JobForm = Mapping[str, Any]
PlacementForm = str | Mapping[str, Any]

#: Longest answer that is read; a matrix of 100,000 cells takes less.
MAX_BYTES = 64 * 1024 * 1024


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
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInputError(
                f"A service has a URL such as http://127.0.0.1:8000; got {url!r}."
            )
        self._parts = parts
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
            return self._exchange(method, path, body, now + self._timeout_s)
        except _RefusedError as error:
            raise NoAnswerError(str(error)) from None  # it works, only not for this question
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._silent_until = time.monotonic() + self._rest_s
            raise NoAnswerError(
                f"No answer from {self._parts.netloc}{path} within {self._timeout_s:g} s: {error!r}"
            ) from error

    def _exchange(self, method: str, path: str, body: bytes | None, deadline: float) -> Any:
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._timeout_s)
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        with contextlib.closing(connection):
            connection.connect()
            with _hung_up_at(deadline, connection.sock):
                connection.request(method, self._parts.path.rstrip("/") + path, body, headers)
                response = connection.getresponse()
                content = _read(response)
        if 400 <= response.status < 500:
            raise _RefusedError(f"{path} answered {response.status}: {content[:500]!r}")
        if response.status != 200:
            raise ValueError(f"status {response.status}")
        return json.loads(content)


class _RefusedError(Exception):
    """The service answered that the question is wrong."""


def _read(response: http.client.HTTPResponse) -> bytes:
    content = response.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"the answer is longer than {MAX_BYTES} bytes")
    return content


@contextlib.contextmanager
def _hung_up_at(deadline: float, connected: socket.socket) -> Iterator[None]:
    """Hang up at a time: the socket's own timeout starts again with each byte that drips in."""
    over = threading.Event()

    def hang_up() -> None:
        over.set()
        with contextlib.suppress(OSError):
            connected.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(0.0, deadline - time.monotonic()), hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise (TimeoutError("the time is over") if over.is_set() else error) from error
    finally:
        timer.cancel()
    if over.is_set():
        raise TimeoutError("the time is over")

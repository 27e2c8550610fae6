"""One HTTP exchange with one deadline, from connecting to the last byte; standard library only."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, urlsplit

from perfmodel.errors import InvalidInputError

#: Longest answer that is read; a matrix of 100,000 cells takes less.
MAX_BYTES = 64 * 1024 * 1024

#: What may go wrong in an exchange.
FAILED = (OSError, http.client.HTTPException, ValueError)


def split_url(url: str) -> SplitResult:
    """Return the parts of the URL of a service.

    Raises
    ------
    InvalidInputError
        A URL that is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(f"A service has a URL such as http://127.0.0.1:8000; got {url!r}.")
    return parts


def exchange(
    method: str,
    base: SplitResult,
    path: str,
    body: bytes | None = None,
    *,
    timeout_s: float,
    headers: Mapping[str, str],
) -> tuple[int, bytes]:
    """Send a request and read the whole answer.

    Parameters
    ----------
    method : str
    base : SplitResult
        As :func:`split_url` returns it.
    path : str
        Below the path of ``base``.
    body : bytes or None
    timeout_s : float
        For all of it.
    headers : mapping of str to str

    Returns
    -------
    status : int
    content : bytes

    Raises
    ------
    OSError, http.client.HTTPException, ValueError
        No answer in time, none that is HTTP, or one that is too long; :data:`FAILED`.
    """
    deadline = time.monotonic() + timeout_s
    kind = http.client.HTTPSConnection if base.scheme == "https" else http.client.HTTPConnection
    connection = kind(base.hostname or "", base.port, timeout=timeout_s)
    with contextlib.closing(connection):
        connection.connect()
        with _hung_up_at(deadline, connection.sock):
            connection.request(method, base.path.rstrip("/") + path, body, dict(headers))
            response = connection.getresponse()
            content = response.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"the answer is longer than {MAX_BYTES} bytes")
    return response.status, content


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

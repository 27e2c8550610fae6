"""Blocking exchanges over HTTP, each with one deadline; standard library only."""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import SplitResult, urlsplit

from perfmodel.client.errors import TimedOutError, UnreachableError, UnreadableAnswerError
from perfmodel.client.protocol.encoding import MAX_BYTES
from perfmodel.client.protocol.messages import Reply, Request
from perfmodel.errors import first_line

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Open connections that wait for the next request; more are closed.
_MOST_IDLE = 8
#: Servers hang up idle connections, uvicorn after 5 s; a little before that a new one is opened.
_IDLE_S = 4.0


class Transport(Protocol):
    """Whatever exchanges requests for replies."""

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Exchange a request for its whole reply.

        Raises
        ------
        NoAnswerError
            There is none.
        """
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class Wire:
    """Connections that are kept open and used again; safe among threads.

    Left out: proxies of the environment, redirections.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self._lock = threading.Lock()
        self._tls = tls
        self._idle: list[_Line] = []

    def send(self, request: Request, timeout_s: float) -> Reply:
        """Exchange a request for its whole reply.

        Parameters
        ----------
        timeout_s : float
            From connecting to the last byte, however slowly they drip in. Resolving a name is
            left to the system and not counted.

        Raises
        ------
        UnreachableError
            No connection, or it was dropped.
        TimedOutError
        UnreadableAnswerError
            What came is no HTTP, or too long.
        """
        url = urlsplit(request.url)
        until = time.monotonic() + timeout_s
        try:
            return self._exchange(request, url, until)
        except TimeoutError:
            raise TimedOutError(
                f"No whole answer from {url.netloc}{url.path} within {timeout_s:.2g} s."
            ) from None
        except (OSError, http.client.IncompleteRead) as error:
            raise UnreachableError(f"{url.netloc} cannot be asked: {first_line(error)}.") from error
        except http.client.HTTPException as error:
            raise UnreadableAnswerError(f"{url.netloc} speaks no HTTP: {error!r}.") from error

    def close(self) -> None:
        """Close the connections that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            line.close()

    def __del__(self) -> None:
        # Adapters live as long as their scheduler, and nobody there closes anything.
        self.close()

    def _exchange(self, request: Request, url: SplitResult, until: float) -> Reply:
        line = self._waiting(url)
        if line is not None:
            # The other side may have hung up meanwhile; every request may be sent twice.
            with contextlib.suppress(ConnectionError, http.client.BadStatusLine):
                return self._over(line, request, url, until)
        return self._over(_Line(url, until, self._tls), request, url, until)

    def _over(self, line: _Line, request: Request, url: SplitResult, until: float) -> Reply:
        try:
            reply = line.exchange(request, url, until)
        except BaseException:
            line.close()
            raise
        if line.open and self._keep(line):
            return reply
        line.close()
        return reply

    def _waiting(self, url: SplitResult) -> _Line | None:
        now = time.monotonic()
        with self._lock:
            stale = [line for line in self._idle if now - line.used_at > _IDLE_S]
            self._idle = [line for line in self._idle if line not in stale]
            # The one that was used last is the least likely to be closed by now.
            fit = next((x for x in reversed(self._idle) if x.end == (url.scheme, url.netloc)), None)
            if fit is not None:
                self._idle.remove(fit)
        for line in stale:
            line.close()
        return fit

    def _keep(self, line: _Line) -> bool:
        line.used_at = time.monotonic()
        with self._lock:
            if len(self._idle) >= _MOST_IDLE:
                return False
            self._idle.append(line)
        return True


class _Line:
    """A connection to one service."""

    def __init__(self, url: SplitResult, until: float, tls: ssl.SSLContext | None) -> None:
        self.end = (url.scheme, url.netloc)
        self.used_at = 0.0
        host, left_s = url.hostname or "", _left_s(until)
        if url.scheme == "https":
            context = tls or ssl.create_default_context()
            self._http: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, url.port, timeout=left_s, context=context
            )
        else:
            self._http = http.client.HTTPConnection(host, url.port, timeout=left_s)
        self._http.connect()
        self._paced = _PacedSocket(self._http.sock)
        # Its users only send, close and make a file of it.
        self._http.sock = self._paced  # type: ignore[assignment]

    @property
    def open(self) -> bool:
        """Whether another request may follow."""
        return self._http.sock is not None

    def exchange(self, request: Request, url: SplitResult, until: float) -> Reply:
        """Exchange a request for its reply."""
        self._paced.until = until
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._http.request(request.method, target, request.body, dict(request.headers))
        with self._http.getresponse() as response:
            content = response.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise UnreadableAnswerError(f"The answer is longer than {MAX_BYTES} bytes.")
            if response.length:
                raise http.client.IncompleteRead(content, response.length)
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Reply(status=response.status, headers=headers, content=content)

    def close(self) -> None:
        """Hang up."""
        self._http.close()


class _PacedSocket:
    """A socket whose timeouts end at one point in time.

    A socket's own timeout starts again with each byte that drips in.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.until = 0.0

    def sendall(self, data: Any) -> None:
        """Send all of it in time."""
        self._socket.settimeout(_left_s(self.until))
        self._socket.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return what the socket receives as a file; nobody asks for another mode."""
        assert mode == "rb"
        return io.BufferedReader(_PacedFile(self, self._socket.makefile("rb", buffering=0)))

    def close(self) -> None:
        """Close it, as soon as its file is closed too."""
        self._socket.close()

    def pace(self) -> None:
        """Give the next operation what is left of the time."""
        self._socket.settimeout(_left_s(self.until))


class _PacedFile(io.RawIOBase):
    def __init__(self, paced: _PacedSocket, raw: socket.SocketIO) -> None:
        self._paced = paced
        self._raw = raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        self._paced.pace()
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left_s(until: float) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time is over")
    return left_s

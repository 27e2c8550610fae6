"""Cut connections that a server does not answer on.

A server that hangs answers nothing, not even that a statement took too long; a network that loses
packets looks the same. Whoever waits for it would wait for as long as it hangs. A thread of the
watchdog shuts the socket down on which somebody waits too long; the wait then ends with an error.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Socketed(Protocol):
    """A connection over a socket, such as psycopg's."""

    @property
    def closed(self) -> bool:
        """Whether it was closed."""

    def fileno(self) -> int:
        """Return its file descriptor."""


class Watchdog:
    """Limits how long connections may be waited for; may be shared by threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watched: dict[int, tuple[float, Socketed]] = {}
        self._numbers = 0
        self._thread: threading.Thread | None = None
        self._ended = False

    @contextmanager
    def limiting(self, connection: Socketed, limit_s: float) -> Iterator[None]:
        """Cut a connection if the block takes longer than a limit.

        Parameters
        ----------
        connection : Socketed
            Must not be closed by anybody else meanwhile.
        """
        with self._changed:
            self._numbers += 1
            number = self._numbers
            self._watched[number] = (time.monotonic() + limit_s, connection)
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(number, None)

    def close(self) -> None:
        """End; what is watched goes on without a limit."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        with self._changed:
            while not self._ended:
                now = time.monotonic()
                late = [number for number, (until, _) in self._watched.items() if until <= now]
                for number in late:
                    _cut(self._watched.pop(number)[1])
                # Woken for each new one; most are gone long before their limit.
                earliest = min((until for until, _ in self._watched.values()), default=None)
                self._changed.wait(None if earliest is None else max(earliest - now, 0.05))


def _cut(connection: Socketed) -> None:
    if connection.closed:
        return
    # It may have been lost in this very moment.
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)

"""Notice what other processes change in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.polling import poll_until
from perfmodel.store.sql.revisions import read_revisions


class RevisionWatch:
    """Looks at the counters of changes from time to time and tells who wants to know."""

    def __init__(self, connections: Connections, *, poll_s: float = 0.5) -> None:
        self._connections = connections
        self._poll_s = poll_s
        self._listeners: dict[str, list[Callable[[], object]]] = {}
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def on_change(self, name: str, tell: Callable[[], object]) -> None:
        """Call somebody, in the thread that looks, after something was changed.

        Whether it was changed since the process began is not known at first, so that the first
        look tells everybody.

        Parameters
        ----------
        tell : callable
            If it raises :class:`~perfmodel.errors.StoreError` it is told again.
        """
        self._listeners.setdefault(name, []).append(tell)

    def start(self) -> None:
        """Begin to look."""
        if self._thread is None and not self._ended.is_set():
            self._thread = threading.Thread(target=self._watch, name="revisions", daemon=True)
            self._thread.start()

    def poll(self) -> None:
        """Look now, and tell who is to be told."""
        with self._lock:
            with self._connections.reading() as connection:
                found = read_revisions(connection)
            for name, listeners in list(self._listeners.items()):
                newest = found.get(name, 0)
                if self._seen.get(name) != newest:
                    for tell in listeners:
                        tell()
                    self._seen[name] = newest

    def close(self) -> None:
        """Stop looking."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        poll_until(
            self._ended,
            self.poll,
            every_s=self._poll_s,
            complaint="changes by others cannot be seen",
        )

"""Who did what as an administrator: a JSON object each, appended and never changed."""

from __future__ import annotations

import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import StoreError
from perfmodel.store.sql.connections import Connections
from perfmodel.store.state.keys import AuditStore

logger = logging.getLogger(__name__)


class AuditLog:
    """Appends to a file; each line is on disk before :meth:`append` returns.

    Several processes may append to one file: a line goes out in one write at its end. If it cannot
    be written, the line goes to the log of the service as an error and the action stands.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()

    def append(self, action: str, *, by: str, **facts: Any) -> None:
        """Note what was done: ``"PUT /v1/prices"``, ``"create key"``.

        Parameters
        ----------
        by : str
            Who: the identifier of a key, or a user of this machine.
        """
        self.append_line(audit_line(action, by=by, **facts))

    def append_line(self, content: bytes) -> None:
        """Note what :func:`audit_line` wrote."""
        line = content + b"\n"
        try:
            with self._lock:
                self._write(line)
        except OSError as error:
            logger.error("The audit log %s cannot be written: %s. %s", self.path, error, line)

    def _write(self, line: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)


class AuditTable:
    """Notes actions in a database, for all hosts that share it; in a file while that is away."""

    def __init__(self, connections: Connections, instead: AuditLog) -> None:
        self._rows = AuditStore(connections)
        self._instead = instead

    def append(self, action: str, *, by: str, **facts: Any) -> None:
        """Note an action, as :meth:`AuditLog.append`."""
        line = audit_line(action, by=by, **facts)
        try:
            self._rows.append(line.decode())
        except StoreError as error:
            logger.error(
                "The audit log in the database cannot be written: %s This goes to %s: %s",
                error, self._instead.path, line.decode(),
            )  # fmt: skip
            self._instead.append_line(line)


def audit_line(action: str, *, by: str, **facts: Any) -> bytes:
    """Return an action as it is noted."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return orjson.dumps({"at": at, "by": by, "action": action, **facts})

"""Who did what as an administrator: one JSON object a line, appended and never changed."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

logger = logging.getLogger(__name__)


class AuditLog:
    """Appends to a file; each line is on disk before :meth:`append` returns.

    Several processes may append to one file: a line goes out in one write at its end. If it cannot
    be written, the line goes to the log of the service as an error and the action stands.

    Parameters
    ----------
    path : path
        Made when first needed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()

    def append(self, action: str, *, by: str, **facts: Any) -> None:
        """Note an action.

        Parameters
        ----------
        action : str
            What was done: ``"PUT /v1/prices"``, ``"create key"``.
        by : str
            Who: the identifier of a key, or a user of this machine.
        **facts
            Anything else that JSON can say.
        """
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = orjson.dumps({"at": at, "by": by, "action": action, **facts}) + b"\n"
        try:
            with self._lock:
                self._write(line)
        except OSError as error:
            logger.error("The audit log %s cannot be written: %s. %s", self.path, error, line)

    async def append_async(self, action: str, *, by: str, **facts: Any) -> None:
        """Note an action without holding up the event loop."""
        await asyncio.to_thread(self.append, action, by=by, **facts)

    def _write(self, line: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)

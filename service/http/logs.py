"""Logs as one JSON object a line, each with the identifier of the request that it is about."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from datetime import UTC, datetime
from http import HTTPStatus
from threading import Lock
from typing import Any, TextIO

import orjson

#: Whose loggers are heard from the stated level on; libraries tell of every request that they send.
_OURS = ("perfmodel", "service", "uvicorn")

#: The identifier of the request that this task answers; "" outside of requests.
request_id_of_context: ContextVar[str] = ContextVar("request_id", default="")


class JsonLines(logging.Formatter):
    r"""Formats records as JSON objects.

    ``at``, ``level``, ``logger`` and ``message`` are always there; ``request_id`` inside of a
    request, ``traceback`` with an exception, and whatever a record carries in ``facts``. No
    message spans lines, so that nobody writes a line of the log by what they ask.

    Examples
    --------
    >>> record = logging.makeLogRecord({"msg": "ready\nor not", "levelname": "INFO", "created": 0})
    >>> print(JsonLines().format(record))
    {"at":"1970-01-01T00:00:00.000+00:00","level":"info","logger":"root","message":"ready\nor not"}
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name or "root",
            "message": record.getMessage(),
        }
        request_id = request_id_of_context.get()
        if request_id:
            line["request_id"] = request_id
        line.update(getattr(record, "facts", {}))
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class AtMost(logging.Filter):
    """Lets a few lines a second of one kind through; the next one says how many were left out.

    Lines are of one kind that one place of the code writes, about requests those of one status.
    Requests that were answered are no flood, and pass.

    Parameters
    ----------
    per_s : int
        Lines of one kind in one second, >= 1.
    """

    def __init__(self, per_s: int = 10, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._per_s = per_s
        self._clock = clock
        self._lock = Lock()
        #: By kind the second that was written in last, the lines of it, and those left out since.
        self._written: dict[Hashable, tuple[int, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether a line is written."""
        status = getattr(record, "facts", {}).get("status")
        if status is not None and status < HTTPStatus.BAD_REQUEST:
            return True
        left_out = self._counted((record.pathname, record.lineno, status))
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} like it were left out before)"
            record.args = None
        return left_out is not None

    def _counted(self, kind: Hashable) -> int | None:
        """Count a line; returns how many were left out before it, None where it is as well."""
        with self._lock:
            now = int(self._clock())
            second, lines, left_out = self._written.get(kind, (now, 0, 0))
            lines = lines if second == now else 0
            if lines >= self._per_s:
                self._written[kind] = (now, lines, left_out + 1)
                return None
            self._written[kind] = (now, lines + 1, 0)
            return left_out


def configure(*, level: str = "info", as_json: bool = True, stream: TextIO | None = None) -> None:
    """Send everything that is logged in this process to a stream.

    Replaces the handlers of the root logger and of the server, so that each line appears once. The
    server's own line for each request stays off: the service writes it itself. No flood of one kind
    fills the stream (:class:`AtMost`).

    Parameters
    ----------
    level : str
        From which on the service is heard. Libraries are heard from warnings on, unless it is
        ``"debug"``.
    as_json : bool
        One JSON object a line; else one plain line for people.
    stream : text file or None
        None: standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if as_json else plain)
    handler.addFilter(AtMost())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    stated = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(stated if stated <= logging.DEBUG else max(stated, logging.WARNING))
    for name in _OURS:
        logging.getLogger(name).setLevel(stated)
    for name in ("uvicorn", "uvicorn.error"):
        server = logging.getLogger(name)
        server.handlers.clear()
        server.propagate = True

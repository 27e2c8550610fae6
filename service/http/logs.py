"""Logs as one JSON object a line, each with the identifier of the request that it is about."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
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


def configure(*, level: str = "info", as_json: bool = True, stream: TextIO | None = None) -> None:
    """Send everything that is logged in this process to a stream.

    Replaces the handlers of the root logger and of the server, so that each line appears once. The
    server's own line for each request stays off: the service writes it itself.

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

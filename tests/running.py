"""A real service on a real socket."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

#: Longer than any machine takes to start or to end it.
_PATIENCE_S = 60.0


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Serve an application in a thread and give its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + _PATIENCE_S
        while not server.started:
            assert thread.is_alive() and time.monotonic() < until, "the service does not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=_PATIENCE_S)

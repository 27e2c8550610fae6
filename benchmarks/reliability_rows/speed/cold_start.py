"""Seconds from the start of the service to its first answer, and of ``perfmodel --help``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from _servers import service
from reliability_rows.row import Found

PORT = 18_880
MOST_READY_S, MOST_HELP_S = 5.0, 0.3


def measure(count: int) -> Found:
    """Start each so often; the shortest counts, since nothing makes a start too short."""
    ready = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            with service(folder, PORT) as server:
                ready.append(server.ready_s)
    helped = [_help_s() for _ in range(2 * count)]
    measured = (
        f"ready in {min(ready):.2f} s, the first time {ready[0]:.2f} s; --help {min(helped):.2f} s "
        f"(best of {count} and {2 * count})"
    )
    held = min(ready) <= MOST_READY_S and min(helped) <= MOST_HELP_S
    return Found(measured=measured, held=held)


def _help_s() -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "perfmodel", "--help"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began

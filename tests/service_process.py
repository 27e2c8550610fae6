"""The service as a process of its own, as an operator starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asking import Service

ROOT = Path(__file__).resolve().parents[1]

_START = """
import sys
from service.serve import serve
serve(port=0, models=sys.argv[1], database=sys.argv[2])
"""

Process = subprocess.Popen[str]


@contextmanager
def service_process(
    database: str, folder: Path, *, models: str = "", **environment: str
) -> Iterator[tuple[Process, Service]]:
    """Start a service, wait until it is ready, and kill it in the end.

    Parameters
    ----------
    database : str
        URL.
    folder : Path
        Where it runs.
    models : str
        Folder of its models.
    **environment : str
        Variables besides those of this process.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _START, models, database],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert process.stdout is not None
    try:
        # "perfmodel answers on <address> (docs: ..."
        yield process, Service(process.stdout.readline().split()[3])
    finally:
        process.kill()
        process.communicate()

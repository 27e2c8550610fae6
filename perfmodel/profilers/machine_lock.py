"""One measurement at a time on a machine."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def default_lock_path() -> Path:
    """Return the lock file that all campaigns of this machine share."""
    return Path(tempfile.gettempdir()) / "perfmodel-cpu.lock"


@contextmanager
def machine_lock(path: Path | None = None) -> Iterator[None]:
    """Hold the machine alone; waits for whoever holds it.

    The kernel lets the lock go when the process ends, however it ends.

    Parameters
    ----------
    path : Path, optional
        Lock file; by default the one that all campaigns of the machine share.
    """
    with (path or default_lock_path()).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""The lock of a device: whoever measures on it holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: Variables that say which accelerators a process may see.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


@contextmanager
def machine_lock(
    path: Path | None = None, *, on_wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the machine alone; waits for whoever holds it.

    The kernel lets the lock go when the process ends, however it ends.

    Parameters
    ----------
    path : Path, optional
        Lock file; by default that of the processor.
    on_wait : callable, optional
        Called where somebody else holds it, before waiting.
    """
    file = _opened(path or device_lock_path("cpu"))
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _opened(path: Path) -> int:
    """Open a lock file, which another user of the machine may have made: reading is enough."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        file = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    with contextlib.suppress(PermissionError):  # somebody else was quicker
        os.fchmod(file, 0o644)
    return file


def device_lock_path(device: str) -> Path:
    """Return the file that is locked by whoever measures a device of this machine.

    Parameters
    ----------
    device : str
        As :func:`~perfmodel.profilers.runtime.open_runtime` takes it. An accelerator is told apart
        as the variables say that hide others from this process; recordings lock the processor.

    Examples
    --------
    >>> device_lock_path("cpu").name
    'perfmodel-cpu.lock'
    """
    word, _, rest = device.partition(":")
    name = "cpu"
    if word not in ("cpu", "replay"):
        index = int(rest) if rest.isdigit() else 0
        visible = next((v for v in map(os.environ.get, _VISIBLE) if v), "")
        cards = [card.strip() for card in visible.split(",")]
        name = f"gpu-{cards[index] if visible and index < len(cards) else index}"
    return Path(tempfile.gettempdir()) / f"perfmodel-{name}.lock"

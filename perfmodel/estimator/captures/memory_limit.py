"""How much memory this process holds, and a bound on what it takes besides."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """Return what the process holds in memory; 0 where the system does not say."""
    return _field("VmRSS:")


def peak_bytes() -> int:
    """Return the most that the process held since a limit was last set, or since it began."""
    return _field("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def limited_memory(extra_bytes: int) -> Iterator[None]:
    """Let the process take so much more than it has; allocations beyond fail.

    What is written to counts, not what is mapped: libraries map far more. Where the system has no
    such limit there is none.
    """
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    held = _field("VmData:")
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")  # the peak counts from here
    limit = held + extra_bytes
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    if held:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _field(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0

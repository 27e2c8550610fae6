"""Peak memory of a step: what is resident in this process."""

from __future__ import annotations

from pathlib import Path

import psutil


class PeakMemory:
    """Highest resident memory of this process above a base line.

    The kernel keeps the high-water mark itself (``VmHWM``). Where it can be reset through
    ``/proc/self/clear_refs``, the mark since :meth:`reset` is read; elsewhere the mark since the
    process began, which in a fresh process differs only by what construction needed for a
    moment.

    Attributes
    ----------
    method : str
        ``"hwm_since_reset"`` or ``"hwm_since_start"``: which of the two was read.
    """

    def __init__(self) -> None:
        self._base_bytes = psutil.Process().memory_info().rss
        self.method = "hwm_since_start"

    def reset(self) -> None:
        """Forget the highest mark so far; the base line stays."""
        try:
            # 5 resets the high-water mark and nothing else (see proc(5)).
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            return
        self.method = "hwm_since_reset"

    def peak_bytes(self) -> float | None:
        """Return the highest resident bytes above the base line; None where nothing tells."""
        try:
            lines = Path("/proc/self/status").read_text().splitlines()
        except OSError:
            return None
        for line in lines:
            if line.startswith("VmHWM:"):
                return float(max(0, int(line.split()[1]) * 1024 - self._base_bytes))
        return None

"""How long things take: told, and held to a promise by ``benchmarks/reliability.py`` alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Slowest:
    """What took longest of all that was timed.

    Parameters
    ----------
    seconds : float
        Of the processor.
    """

    seconds: float = 0.0

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Time the thread that runs a block."""
        began_s = time.thread_time()
        try:
            yield
        finally:
            self.note(time.thread_time() - began_s)

    def note(self, seconds: float) -> None:
        """Take into account what was timed elsewhere."""
        self.seconds = max(self.seconds, seconds)

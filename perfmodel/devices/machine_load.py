"""Which share of the machine others used while steps were timed."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod

import psutil


class LoadMeter(ABC):
    """Tells which share of the machine others used over an interval."""

    @abstractmethod
    def start(self) -> None:
        """Begin an interval."""

    @abstractmethod
    def other_share(self) -> float:
        """Return the share of the CPU capacity since :meth:`start` that was not ours, in [0, 1]."""


class SystemLoad(LoadMeter):
    """The load of this machine, from the system's busy time minus that of this process.

    ``other = (busy_s - own_s) / (cores * wall_s)``. Time that a hypervisor took away counts as
    busy: it was not ours. The counters tick in 1/100 s, so over short intervals one tick per
    core is let off.
    """

    def __init__(self) -> None:
        self._cores = os.cpu_count() or 1
        self._begin = (0.0, 0.0, 0.0)

    def start(self) -> None:
        """Begin an interval."""
        self._begin = self._now()

    def other_share(self) -> float:
        """Return the share of the capacity that other processes used, in [0, 1]."""
        wall_s, busy_s, own_s = (
            now - then for now, then in zip(self._now(), self._begin, strict=True)
        )
        if wall_s <= 0:
            return 0.0
        tick_s = self._cores * 0.01
        share = (busy_s - own_s - tick_s) / (self._cores * wall_s)
        return min(1.0, max(0.0, share))

    @staticmethod
    def _now() -> tuple[float, float, float]:
        times = psutil.cpu_times()
        # Guest time is contained in user time; waiting for a disk leaves the core free.
        names = ("user", "nice", "system", "irq", "softirq", "steal")
        busy_s = sum(getattr(times, name, 0.0) for name in names)
        return time.monotonic(), busy_s, time.process_time()

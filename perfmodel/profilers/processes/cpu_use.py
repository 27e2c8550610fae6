"""How much of the machine a measurement of several processes had to itself."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

#: Of the system's counters.
_TICK_S = 0.01
# Guest time is contained in user time; waiting for a disk leaves the core free.
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuUse:
    """What cores did over an interval.

    Parameters
    ----------
    wall_s : float
        Length of the interval.
    busy_s : float
        Core-seconds of the whole machine.
    own_s : float
        Core-seconds of one member of the measurement and its children.
    """

    wall_s: float
    busy_s: float
    own_s: float


class CpuMeter:
    """Measures :class:`CpuUse` from its making on."""

    def __init__(self) -> None:
        self._begin = _now()

    def use(self) -> CpuUse:
        """Return what cores did since this was made."""
        begin, end = self._begin, _now()
        return CpuUse(
            wall_s=end.wall_s - begin.wall_s,
            busy_s=end.busy_s - begin.busy_s,
            own_s=end.own_s - begin.own_s,
        )


def other_share(uses: Sequence[CpuUse], *, cores: int | None = None) -> float:
    """Return the share of the machine that nobody of the measurement used, in [0, 1].

    ``(busy - sum of own) / (cores * wall)``, the interval being the longest of the members'. One
    tick of the counters per core is let off.

    Parameters
    ----------
    uses : sequence of CpuUse
        One a member, over intervals that begin and end together.
    cores : int or None
        Logical processors of the machine; None: of this one.

    Examples
    --------
    Two members of 0.9 s each leave 0.18 of the 2 busy seconds, less the ticks, to others:

    >>> uses = [CpuUse(wall_s=1.0, busy_s=2.0, own_s=0.9)] * 2
    >>> round(other_share(uses, cores=2), 3)
    0.09
    """
    count = cores or os.cpu_count() or 1
    longest = max(uses, key=lambda use: use.wall_s)
    if longest.wall_s <= 0:
        return 0.0
    others_s = longest.busy_s - sum(use.own_s for use in uses) - count * _TICK_S
    return min(1.0, max(0.0, others_s / (count * longest.wall_s)))


def _now() -> CpuUse:
    times = psutil.cpu_times()
    busy_s = sum(getattr(times, name, 0.0) for name in _BUSY)
    return CpuUse(wall_s=time.monotonic(), busy_s=busy_s, own_s=_own_s())


def _own_s() -> float:
    children = psutil.Process().children(recursive=True)
    own = time.process_time()
    for child in children:
        try:
            spent = child.cpu_times()
        except psutil.Error:
            continue
        own += spent.user + spent.system
    return own

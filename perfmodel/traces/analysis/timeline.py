"""Where the time of a device went: computing, communicating, waiting.

Of a window, per device::

    window = computing | copying | exposed communication | idle

Exposed is communication while nothing was computed. Idle is launch-bound as far as the kernel that
ended it was launched while the device was idle already: the device waited for the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.traces.trace import KernelKind, Kernels


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceTime:
    """Seconds of one device in a window.

    Parameters
    ----------
    computing_s : float
        At least one kernel computed.
    communicating_s : float
        A collective ran; ``exposed_s`` of it while nothing was computed.
    moving_s : float
        Copies and fills while neither computed nor communicated.
    idle_s : float
        Nothing ran; ``launch_bound_s`` of it because nothing had been launched.
    """

    device: int
    window_s: float
    computing_s: float
    communicating_s: float
    exposed_s: float
    moving_s: float
    idle_s: float
    launch_bound_s: float


def device_times(kernels: Kernels, start_ns: int, end_ns: int) -> tuple[DeviceTime, ...]:
    """Return where the time of every device went that did anything in a window."""
    inside = (kernels.start_ns >= 0) & (kernels.start_ns < end_ns) & (kernels.end_ns > start_ns)
    rows = np.flatnonzero(inside)
    return tuple(
        _one(kernels, rows[kernels.device[rows] == device], device, start_ns, end_ns)
        for device in np.unique(kernels.device[rows]).tolist()
    )


def doubled_share(kernels: Kernels) -> float:
    """Return the share of the time of kernels in which the one before on their queue still ran.

    A queue runs one after the other. Kernels of graphs are not looked at, whose branches share one.
    """
    rows = np.flatnonzero((kernels.start_ns >= 0) & (kernels.stream >= 0) & ~kernels.graph)
    rows = rows[np.lexsort((kernels.start_ns[rows], kernels.queue[rows]))]
    queue, ends_ns = kernels.queue[rows], kernels.end_ns[rows]
    together_ns = np.minimum(ends_ns[:-1], ends_ns[1:]) - kernels.start_ns[rows][1:]
    doubled_ns = int(together_ns[(queue[:-1] == queue[1:]) & (together_ns > 0)].sum())
    return doubled_ns / max(int(kernels.duration_ns[rows].sum()), 1)


def beside_others(kernels: Kernels) -> npt.NDArray[np.bool_]:
    """Tell of each run whether anything else ran on its device meanwhile.

    Neighbours take cores and bandwidth: such a run takes longer than the same work alone. Runs that
    touch each other at an end are none; of what has no timeline nothing is known.
    """
    found = np.zeros(len(kernels), dtype=np.bool_)
    timed = np.flatnonzero((kernels.start_ns >= 0) & (kernels.duration_ns > 0))
    for device in np.unique(kernels.device[timed]).tolist():
        rows = timed[kernels.device[timed] == device]
        rows = rows[np.argsort(kernels.start_ns[rows], kind="stable")]
        starts, ends = kernels.start_ns[rows], kernels.end_ns[rows]
        found[rows[1:]] |= np.maximum.accumulate(ends)[:-1] > starts[1:]
        found[rows[:-1]] |= starts[1:] < ends[:-1]
    return found


def _one(
    kernels: Kernels, rows: npt.NDArray[np.int64], device: int, start_ns: int, end_ns: int
) -> DeviceTime:
    kinds = kernels.kind[rows]
    computing = _spans(kernels, rows[kinds == KernelKind.COMPUTE]).within(start_ns, end_ns)
    collective = _spans(kernels, rows[kinds == KernelKind.COLLECTIVE]).within(start_ns, end_ns)
    working = computing.with_spans(collective)
    busy = _spans(kernels, rows).within(start_ns, end_ns)
    return DeviceTime(
        device=device,
        window_s=(end_ns - start_ns) / 1e9,
        computing_s=computing.total_ns / 1e9,
        communicating_s=collective.total_ns / 1e9,
        exposed_s=(working.total_ns - computing.total_ns) / 1e9,
        moving_s=(busy.total_ns - working.total_ns) / 1e9,
        idle_s=(end_ns - start_ns - busy.total_ns) / 1e9,
        launch_bound_s=_launch_bound_ns(kernels, rows, busy, start_ns) / 1e9,
    )


def _spans(kernels: Kernels, rows: npt.NDArray[np.int64]) -> Spans:
    return Spans.union(kernels.start_ns[rows], kernels.end_ns[rows])


def _launch_bound_ns(
    kernels: Kernels, rows: npt.NDArray[np.int64], busy: Spans, window_start_ns: int
) -> int:
    """Return how long the device was idle before calls that launched its next work had begun."""
    if not len(busy.start_ns):
        return 0
    known = rows[kernels.launch_start_ns[rows] >= 0]
    order = known[np.argsort(kernels.start_ns[known], kind="stable")]
    starts = kernels.start_ns[order]
    total = 0
    for idle_from, idle_to in _idle(busy, window_start_ns):
        place = int(np.searchsorted(starts, idle_to))
        if place < len(order) and starts[place] == idle_to:
            row = order[place]
            launched_ns = int(kernels.launch_start_ns[row] + kernels.launch_duration_ns[row])
            total += max(0, min(launched_ns, idle_to) - idle_from)
    return total


def _idle(busy: Spans, window_start_ns: int) -> Iterator[tuple[int, int]]:
    gaps = busy.gaps()
    first = int(busy.start_ns[0])
    if first > window_start_ns:
        yield window_start_ns, first
    yield from zip(gaps.start_ns.tolist(), gaps.end_ns.tolist(), strict=True)


Times = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Spans:
    """Disjoint intervals in rising order.

    Examples
    --------
    >>> import numpy as np
    >>> busy = Spans.union(np.array([0, 2, 9]), np.array([3, 5, 10]))
    >>> busy.total_ns, busy.within(4, 10).total_ns
    (6, 2)
    """

    start_ns: Times
    end_ns: Times

    @classmethod
    def union(cls, start_ns: Times, end_ns: Times) -> Spans:
        """Return the union of intervals in any order; empty ones count for nothing."""
        kept = end_ns > start_ns
        order = np.argsort(start_ns[kept], kind="stable")
        starts, ends = start_ns[kept][order], np.maximum.accumulate(end_ns[kept][order])
        if not len(starts):
            return cls(start_ns=starts, end_ns=ends)
        first = np.concatenate(([True], starts[1:] > ends[:-1]))
        last = np.concatenate((first[1:], [True]))
        return cls(start_ns=starts[first], end_ns=ends[last])

    @property
    def total_ns(self) -> int:
        """How long all of them are together."""
        return int((self.end_ns - self.start_ns).sum())

    def within(self, start_ns: int, end_ns: int) -> Spans:
        """Return the parts inside a window."""
        return Spans.union(
            np.clip(self.start_ns, start_ns, end_ns), np.clip(self.end_ns, start_ns, end_ns)
        )

    def with_spans(self, other: Spans) -> Spans:
        """Return the union with other intervals."""
        return Spans.union(
            np.concatenate((self.start_ns, other.start_ns)),
            np.concatenate((self.end_ns, other.end_ns)),
        )

    def gaps(self) -> Spans:
        """Return what lies between them."""
        return Spans(start_ns=self.end_ns[:-1], end_ns=self.start_ns[1:])

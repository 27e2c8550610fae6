"""Which call of the runtime launched a kernel, found by the number that both bear."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from perfmodel.traces.trace import UNKNOWN, Trace


def _column() -> array[int]:
    return array("q")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchCalls:
    """Calls of the runtime and the correlation ids of kernels, as a file lists them.

    Parameters
    ----------
    of_kernels : array of int64
        A correlation id for each row of :class:`~perfmodel.traces.trace.Kernels`; -1 for none.
    ids, start_ns, duration_ns : array of int64
        One row a call.
    """

    of_kernels: array[int] = field(default_factory=_column)
    ids: array[int] = field(default_factory=_column)
    start_ns: array[int] = field(default_factory=_column)
    duration_ns: array[int] = field(default_factory=_column)

    def add(self, correlation: int, start_ns: int, duration_ns: int) -> None:
        """Add a call."""
        self.ids.append(correlation)
        self.start_ns.append(start_ns)
        self.duration_ns.append(duration_ns)

    def rows(self) -> npt.NDArray[np.int64]:
        """Return for each kernel the row of the call that launched it; -1 for none."""
        ids = _array(self.ids)
        wanted = _array(self.of_kernels)
        if not len(ids):
            return np.full(len(wanted), UNKNOWN, dtype=np.int64)
        order = np.argsort(ids, kind="stable")
        found = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
        return np.where((ids[found] == wanted) & (wanted >= 0), found, UNKNOWN)

    def joined(self, trace: Trace) -> Trace:
        """Return a trace whose kernels know when they were launched."""
        rows = self.rows()
        starts = np.append(_array(self.start_ns), UNKNOWN)
        durations = np.append(_array(self.duration_ns), UNKNOWN)
        kernels = replace(
            trace.kernels, launch_start_ns=starts[rows], launch_duration_ns=durations[rows]
        )
        return replace(trace, kernels=kernels)


def _array(values: array[int]) -> npt.NDArray[np.int64]:
    return np.frombuffer(values, dtype=np.int64) if values else np.zeros(0, dtype=np.int64)

"""Unions of intervals of time, as columns of starts and ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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

"""Calls of the runtime as a reader meets them, joined to kernels at the end."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.joining.nesting import Launches, join_kernels
from perfmodel.traces.limits import LATEST_NS
from perfmodel.traces.trace import UNKNOWN, Trace


def _rows() -> dict[str, array[int]]:
    return {name: array(code) for name, code in Launches.CODES.items()}


def _column() -> array[int]:
    return array("q")


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchCalls:
    """Calls of the runtime and the correlation ids of kernels, as a file lists them.

    Parameters
    ----------
    of_kernels : array of int64
        A correlation id for each row of :class:`~perfmodel.traces.trace.Kernels`; -1 for none.
    """

    of_kernels: array[int] = field(default_factory=_column)
    _calls: dict[str, array[int]] = field(default_factory=_rows)

    def add(
        self,
        correlation: int,
        start_ns: int,
        duration_ns: int,
        *,
        thread: int = 0,
        graph: bool = False,
    ) -> None:
        """Add a call; see :class:`~perfmodel.traces.joining.nesting.Launches`."""
        row = (correlation, start_ns, duration_ns, thread, graph)
        for column, value in zip(self._calls.values(), row, strict=True):
            column.append(value)

    def build(self, builder: TraceBuilder) -> Trace:
        """Return the trace of a builder, its kernels joined to calls and operators."""
        trace = builder.build(min(self._calls["start_ns"], default=LATEST_NS))
        launches = Launches.of(self._calls, self.of_kernels, builder.origin_ns)
        none = (
            array("q", [UNKNOWN]) * len(trace.operators),
            array("q", [UNKNOWN]) * len(trace.kernels),
        )
        return join_kernels(trace, launches, none)

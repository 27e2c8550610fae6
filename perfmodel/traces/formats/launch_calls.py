"""Calls of the runtime as a reader meets them, joined to kernels at the end.

A call and what it launched share a number. The operator that launched is the innermost call that
ran on the same thread meanwhile, as :mod:`perfmodel.traces.joining.nesting` finds it. Work goes in
blocks, and into the columns of the builder: exports of profilers have millions of kernels.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.joining.nesting import Launches, enclosing, nested
from perfmodel.traces.trace import UNKNOWN, Trace

_BLOCK = 1_000_000
_Ints = npt.NDArray[np.int64]


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
        thread = self._fill(builder)
        self._calls.clear()
        trace = builder.build()
        if not len(trace.operators):
            return trace
        operators, order = nested(trace.operators, trace.names)
        kernels = trace.kernels
        operator = np.full(len(kernels), UNKNOWN, dtype=np.int32)
        for rows in _blocks(np.flatnonzero(kernels.launch_start_ns >= 0)):
            operator[rows] = enclosing(
                operators, order, thread[rows], kernels.launch_start_ns[rows]
            )
        return replace(trace, operators=operators, kernels=replace(kernels, operator=operator))

    def _fill(self, builder: TraceBuilder) -> npt.NDArray[np.int32]:
        """Enter when each kernel was launched, and return on which thread."""
        wanted = _array(self.of_kernels, np.int64)
        order = np.argsort(wanted, kind="stable")
        wanted = wanted[order]
        thread = np.full(len(wanted), UNKNOWN, dtype=np.int32)
        columns = {name: _array(values, values.typecode) for name, values in self._calls.items()}
        targets = {
            "start_ns": builder.kernel_column("launch_start_ns"),
            "duration_ns": builder.kernel_column("launch_duration_ns"),
            "graph": builder.kernel_column("graph"),
            "thread": thread,
        }
        for calls in _blocks(np.arange(len(columns["correlation"]))):
            ids = columns["correlation"][calls]
            first = np.searchsorted(wanted, ids, side="left")
            count = np.searchsorted(wanted, ids, side="right") - first
            count[ids < 0] = 0
            # A graph is one call and many kernels.
            launching = np.repeat(calls, count)
            place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
            kernels = order[np.repeat(first, count) + place]
            for name, target in targets.items():
                target[kernels] = columns[name][launching]
        return thread


def _blocks(rows: _Ints) -> Iterator[_Ints]:
    return (rows[begin : begin + _BLOCK] for begin in range(0, len(rows), _BLOCK))


def _array(values: array[int], kind: Any) -> npt.NDArray[Any]:
    return np.frombuffer(values, dtype=kind) if values else np.zeros(0, dtype=kind)

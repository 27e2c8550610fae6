"""Calls of the runtime as a reader meets them, joined to kernels at the end.

A call and what it launched share a number. The operator that launched is the innermost call that
ran on the same thread meanwhile, as :mod:`perfmodel.traces.joining.nesting` finds it. Work goes in
blocks, and into the columns of the builder: exports of profilers have millions of kernels.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.joining.nesting import Launches, enclosing, nested
from perfmodel.traces.trace import UNKNOWN, Trace

_BLOCK = 1_000_000
_Ints = npt.NDArray[np.int64]


class LaunchCalls:
    """Calls of the runtime, and the correlation ids of a builder's kernels.

    Parameters
    ----------
    builder : TraceBuilder
        Each kernel that is added to it needs an id in :attr:`of_kernels`.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        #: A correlation id for each row of the kernels; -1 for none.
        self.of_kernels = array("q")
        self._calls = {name: array(code) for name, code in Launches.CODES.items()}
        #: Ids of kernels in their order, and whose they are; made once all kernels are known.
        self._sorted: tuple[_Ints, _Ints] | None = None
        self._thread = np.zeros(0, dtype=np.int32)

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

    def enter(self) -> None:
        """Enter when kernels were launched by the calls so far; no kernels are added afterwards."""
        if self._sorted is None:
            ids = _array(self.of_kernels, np.int64)
            order = np.argsort(ids, kind="stable")
            self._sorted = ids[order], order
            self._thread = np.full(len(order), UNKNOWN, dtype=np.int32)
            del ids
            del self.of_kernels[:]
        columns = {name: _array(values, values.typecode) for name, values in self._calls.items()}
        targets = {
            "start_ns": self._builder.kernel_column("launch_start_ns"),
            "duration_ns": self._builder.kernel_column("launch_duration_ns"),
            "thread": self._thread,
        }
        # Kernels of a graph may be known as such without the call.
        graph = self._builder.kernel_column("graph")
        for calls in _blocks(np.arange(len(columns["correlation"]))):
            kernels, launching = _launched(*self._sorted, columns["correlation"][calls], calls)
            for name, target in targets.items():
                target[kernels] = columns[name][launching]
            graph[kernels] |= columns["graph"][launching]
        columns.clear()
        for values in self._calls.values():
            del values[:]

    def build(self) -> Trace:
        """Return the trace of the builder, its kernels joined to calls and operators."""
        self.enter()
        self._sorted = None
        trace = self._builder.build()
        if not len(trace.operators):
            return trace
        operators, order = nested(trace.operators, trace.names)
        kernels = trace.kernels
        operator = np.full(len(kernels), UNKNOWN, dtype=np.int32)
        for rows in _blocks(np.flatnonzero(kernels.launch_start_ns >= 0)):
            operator[rows] = enclosing(
                operators, order, self._thread[rows], kernels.launch_start_ns[rows]
            )
        return replace(trace, operators=operators, kernels=replace(kernels, operator=operator))


def _launched(wanted: _Ints, order: _Ints, ids: _Ints, calls: _Ints) -> tuple[_Ints, _Ints]:
    """Return the kernels that calls of some ids launched, and the call of each."""
    first = np.searchsorted(wanted, ids, side="left")
    count = np.searchsorted(wanted, ids, side="right") - first
    count[ids < 0] = 0
    # A graph is one call and many kernels.
    place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return order[np.repeat(first, count) + place], np.repeat(calls, count)


def _blocks(rows: _Ints) -> Iterator[_Ints]:
    return (rows[begin : begin + _BLOCK] for begin in range(0, len(rows), _BLOCK))


def _array(values: array[int], kind: Any) -> npt.NDArray[Any]:
    return np.frombuffer(values, dtype=kind) if values else np.zeros(0, dtype=kind)

"""Which call ran inside which, and which call launched a kernel.

A call of the runtime and the kernel that it launches share a correlation id. The operator that
launched is the innermost one that was running on the calling thread at that moment. Where the trace
lacks the call, the external id of the kernel names its operator.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from perfmodel.traces.joining.phases import phase_markers
from perfmodel.traces.trace import UNKNOWN, Kernels, Operators, Trace

_Ints = npt.NDArray[np.int64]
_BLOCK = 65_536


@dataclass(frozen=True, kw_only=True, eq=False)
class Launches:
    """Calls of the runtime that put work on devices, and the kernels' ids to find them by.

    Parameters
    ----------
    correlation, start_ns, duration_ns : ndarray of int64
    thread : ndarray of int32
    graph : ndarray of bool
        Whether it launched a whole CUDA or HIP graph.
    kernel_correlation : ndarray of int64, shape (kernels,)
        -1 where a kernel has none.
    """

    #: Type codes of :mod:`array` for those who collect them.
    CODES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"correlation": "q", "start_ns": "q", "duration_ns": "q", "thread": "i", "graph": "b"}
    )

    correlation: _Ints
    start_ns: _Ints
    duration_ns: _Ints
    thread: npt.NDArray[np.int32]
    graph: npt.NDArray[np.bool_]
    kernel_correlation: _Ints

    @classmethod
    def of(
        cls, rows: Mapping[str, array[int]], kernel_correlation: array[int], origin_ns: int
    ) -> Launches:
        """Return launches from collected rows, sorted by correlation id, counted from an origin."""
        columns = {name: np.array(values, dtype=values.typecode) for name, values in rows.items()}
        order = np.argsort(columns["correlation"], kind="stable")
        found = {name: column[order] for name, column in columns.items()}
        return cls(
            correlation=found["correlation"],
            start_ns=found["start_ns"] - origin_ns,
            duration_ns=found["duration_ns"],
            thread=found["thread"],
            graph=found["graph"].astype(np.bool_),
            kernel_correlation=np.array(kernel_correlation, dtype=np.int64),
        )


def join_kernels(
    trace: Trace, launches: Launches, external: tuple[array[int], array[int]]
) -> Trace:
    """Return a trace with callers, phases, and the operator of each kernel filled in.

    Parameters
    ----------
    external : tuple of array
        External ids of operators and of kernels.
    """
    operators, order = nested(trace.operators, trace.names)
    kernels = trace.kernels
    launch = _positions(launches.correlation, launches.kernel_correlation)
    found = launch >= 0
    rows = launch[found]
    operator = np.full(len(kernels), UNKNOWN, dtype=np.int32)
    launch_start_ns = np.full(len(kernels), UNKNOWN, dtype=np.int64)
    launch_duration_ns = np.full(len(kernels), UNKNOWN, dtype=np.int64)
    graph = kernels.graph.copy()
    launch_start_ns[found] = launches.start_ns[rows]
    launch_duration_ns[found] = launches.duration_ns[rows]
    graph[found] |= launches.graph[rows]
    operator[found] = enclosing(operators, order, launches.thread[rows], launches.start_ns[rows])
    missing = np.flatnonzero(operator < 0)
    operator[missing] = _by_external(external, missing)
    joined = Kernels(
        name=kernels.name, start_ns=kernels.start_ns, duration_ns=kernels.duration_ns,
        calls=kernels.calls, device=kernels.device, stream=kernels.stream, kind=kernels.kind,
        size_bytes=kernels.size_bytes, operator=operator, launch_start_ns=launch_start_ns,
        launch_duration_ns=launch_duration_ns, graph=graph,
    )  # fmt: skip
    return replace(trace, operators=operators, kernels=joined)


def nested(operators: Operators, names: tuple[str, ...]) -> tuple[Operators, _Ints]:
    """Return calls with their callers and phases, and their order by thread and start.

    A call is inside of one that lasts until its middle at least: times are rounded, so that callers
    may end before what they call, and calls after each other overlap.
    """
    # Start rises within a thread; of two that start together the longer one is outside.
    order = np.lexsort((-operators.duration_ns, operators.start_ns, operators.thread))
    parent = np.full(len(operators), UNKNOWN, dtype=np.int32)
    phase = np.zeros(len(operators), dtype=np.int8)
    marker = phase_markers(names)[operators.name] if len(operators) else phase
    stack: list[tuple[int, int]] = []
    thread_before = None
    for begin in range(0, len(order), _BLOCK):
        block = order[begin : begin + _BLOCK]
        columns = (
            block, operators.thread[block], operators.start_ns[block],
            operators.duration_ns[block], marker[block],
        )  # fmt: skip
        for row, thread, start_ns, duration_ns, marked in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if thread != thread_before:
                stack, thread_before = [], thread
            while stack and stack[-1][0] <= start_ns + duration_ns // 2:
                stack.pop()
            outer = stack[-1][1] if stack else UNKNOWN
            parent[row] = outer
            if marked >= 0:
                phase[row] = marked
            elif outer >= 0:
                phase[row] = phase[outer]
            stack.append((start_ns + duration_ns, row))
    return replace(operators, parent=parent, phase=phase), order


def enclosing(
    operators: Operators, order: _Ints, thread: npt.NDArray[np.int32], at_ns: _Ints
) -> npt.NDArray[np.int32]:
    """Return the innermost call that ran on a thread at some moments, or -1.

    Parameters
    ----------
    order : ndarray
        Of the calls, by thread and start.
    """
    if not len(operators):
        return np.full(len(at_ns), UNKNOWN, dtype=np.int32)
    starts, threads = operators.start_ns[order], operators.thread[order]
    first = np.searchsorted(threads, thread, side="left")
    last = np.searchsorted(threads, thread, side="right")
    found = np.full(len(at_ns), UNKNOWN, dtype=np.int64)
    for one in np.unique(thread).tolist():
        rows = np.flatnonzero(thread == one)
        begin, end = int(first[rows[0]]), int(last[rows[0]])
        place = begin + np.searchsorted(starts[begin:end], at_ns[rows], side="right") - 1
        found[rows] = np.where(place >= begin, order[np.maximum(place, 0)], UNKNOWN)
    # The one that started last may have ended: go outwards to the first that had not.
    end_ns = operators.start_ns + operators.duration_ns
    waiting = np.flatnonzero(found >= 0)
    while len(waiting):
        waiting = waiting[end_ns[found[waiting]] < at_ns[waiting]]
        found[waiting] = operators.parent[found[waiting]]
        waiting = waiting[found[waiting] >= 0]
    return found.astype(np.int32)


def _by_external(external: tuple[array[int], array[int]], kernels: _Ints) -> _Ints:
    of_operators = np.array(external[0], dtype=np.int64)
    wanted = np.array(external[1], dtype=np.int64)[kernels]
    order = np.argsort(of_operators, kind="stable")
    place = _positions(of_operators[order], np.where(wanted > 0, wanted, UNKNOWN))
    return np.where(place >= 0, order[np.maximum(place, 0)], UNKNOWN) if len(order) else place


def _positions(keys: _Ints, wanted: _Ints) -> _Ints:
    """Return where each of some ids stands among sorted ones, or -1; -1 is no id."""
    if not len(keys):
        return np.full(len(wanted), UNKNOWN, dtype=np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[place] == wanted) & (wanted >= 0), place, UNKNOWN)

"""Operators of a trace without a device: there the host itself computes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from perfmodel.graph.cost.base import REGISTER, OpClass
from perfmodel.graph.vocabulary import canonical_op
from perfmodel.traces.analysis.operators import TracedOperator, is_priced
from perfmodel.traces.trace import PHASES, Trace


def host_operators(trace: Trace, start_ns: int, end_ns: int) -> tuple[TracedOperator, ...]:
    """Return the outermost priced calls in a window with the time they took, longest first.

    Calls around them hand work on, calls inside are their parts.
    """
    operators = trace.operators
    told = (operators.start_ns >= start_ns) & (operators.start_ns < end_ns)
    timed = np.flatnonzero(told & (operators.duration_ns >= 0))
    rows = timed[_outermost(trace)[timed]]
    time_ns: Counter[tuple[int, int, int]] = Counter()
    calls: Counter[tuple[int, int, int]] = Counter()
    columns = (operators.name, operators.arguments, operators.phase, operators.duration_ns)
    for name, arguments, phase, duration_ns in zip(
        *(column[rows].tolist() for column in columns), strict=True
    ):
        time_ns[name, arguments, phase] += duration_ns
        calls[name, arguments, phase] += 1
    found = [_operator(trace, key, calls[key], total) for key, total in time_ns.items()]
    return tuple(sorted(found, key=lambda one: -one.time_s))


def _outermost(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return which calls are priced and not inside of one that is."""
    operators = trace.operators
    priced = np.array([is_priced(name) for name in trace.names], dtype=np.bool_)
    own = priced[operators.name] if len(operators) else np.zeros(0, dtype=np.bool_)
    inside = np.zeros(len(operators), dtype=np.bool_)
    current = operators.parent.copy()
    waiting = np.flatnonzero(current >= 0)
    while len(waiting):
        inside[waiting] |= own[current[waiting]]
        current[waiting] = operators.parent[current[waiting]]
        waiting = waiting[current[waiting] >= 0]
    return np.asarray(own & ~inside)


def _operator(trace: Trace, key: tuple[int, int, int], calls: int, total_ns: int) -> TracedOperator:
    name, arguments, phase = trace.names[key[0]], key[1], max(key[2], 0)
    entry = REGISTER.get(canonical_op(name))
    return TracedOperator(
        name=name,
        op=canonical_op(name),
        op_class=(OpClass.OTHER if entry is None else entry.op_class).value,
        phase=PHASES[phase],
        arguments=trace.arguments[arguments] if arguments >= 0 else None,
        calls=calls,
        kernels=0,
        time_s=total_ns / 1e9,
        joined=True,
        kernel_names=(),
    )

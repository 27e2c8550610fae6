"""Operators of a trace with the device time of what they launched.

A kernel was launched by the innermost call, ``aten::cudnn_convolution``; it is counted for the
outermost call around it that graphs know and price, ``aten::convolution``. So traces and graphs
speak of the same operators. What no call launched is named by what it is: part of a graph, a copy,
a collective, or work that was launched before the trace began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfmodel.graph.cost import FORMULA_MODULES
from perfmodel.graph.cost.base import REGISTER, OpClass
from perfmodel.graph.vocabulary import canonical_op
from perfmodel.traces.kernel_kinds import fused_operators
from perfmodel.traces.trace import PHASES, UNKNOWN, KernelKind, OperatorArguments, Trace
from perfmodel.types import Phase

assert FORMULA_MODULES  # their import fills the register

GRAPH, BEFORE = "(launched as a graph)", "(launched before the trace)"
_APART = {
    KernelKind.COPY: "(copies)", KernelKind.MEMSET: "(fills)",
    KernelKind.COLLECTIVE: "(collectives)",
}  # fmt: skip
_KERNELS_SHOWN = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedOperator:
    """Calls of one operator with equal arguments, and what they ran on devices.

    Parameters
    ----------
    name : str
        As the trace has it; in brackets what no call launched.
    op : str
        In the vocabulary of graphs; ``""`` where it is no operator.
    op_class : str
        An :class:`~perfmodel.graph.cost.base.OpClass`, ``"collective"``, ``"graph"`` ...
    calls : int
        Calls on the host that launched anything; kernels where nothing was called.
    kernels : int
        Runs on devices.
    time_s : float
        Device time of all of them; on a trace of a CPU the time of the calls.
    joined : bool
        Whether an operator, or a name of its own (graph, copy, collective), stands for it.
    kernel_names : tuple of str
        The longest running, longest first.
    """

    name: str
    op: str
    op_class: str
    phase: Phase
    arguments: OperatorArguments | None
    calls: int
    kernels: int
    time_s: float
    joined: bool
    kernel_names: tuple[str, ...]

    @property
    def time_per_call_s(self) -> float:
        """Mean device time of a call."""
        return self.time_s / max(self.calls, 1)


def counted_calls(trace: Trace) -> npt.NDArray[np.int32]:
    """Return for each kernel the call that it is counted for, or -1."""
    operators = trace.operators
    found = trace.kernels.operator.copy()
    if not len(operators):
        return found
    priced = np.array([is_priced(name) for name in trace.names], dtype=np.bool_)
    current = found.copy()
    waiting = np.flatnonzero(current >= 0)
    while len(waiting):
        knows = priced[operators.name[current[waiting]]]
        found[waiting[knows]] = current[waiting[knows]]
        current[waiting] = operators.parent[current[waiting]]
        waiting = waiting[current[waiting] >= 0]
    return found


def traced_operators(
    trace: Trace, rows: npt.NDArray[np.int64] | None = None
) -> tuple[TracedOperator, ...]:
    """Return the operators behind kernels, longest first.

    Parameters
    ----------
    rows : ndarray or None
        Kernels to count; None for all.
    """
    chosen = np.arange(len(trace.kernels)) if rows is None else rows
    call = counted_calls(trace)
    groups: dict[tuple[str, int, int], list[int]] = {}
    for row in chosen.tolist():
        groups.setdefault(_key(trace, row, int(call[row])), []).append(row)
    found = [_operator(trace, key, members, call) for key, members in groups.items()]
    return tuple(sorted(found, key=lambda one: -one.time_s))


def joined_share(operators: Iterable[TracedOperator]) -> float:
    """Return the share of device time that is joined or named, in [0, 1]; 1 of nothing.

    What was launched before the trace began is not counted: nothing in the trace says by whom.
    """
    counted = [one for one in operators if one.name != BEFORE]
    total_s = sum(one.time_s for one in counted)
    return sum(one.time_s for one in counted if one.joined) / total_s if total_s else 1.0


def is_priced(name: str) -> bool:
    """Tell whether a name of a trace is that of an operator which graphs price."""
    if "::" not in name or " " in name:
        return False
    entry = REGISTER.get(canonical_op(name))
    return entry is not None and entry.op_class is not OpClass.VIEW


def _key(trace: Trace, row: int, call: int) -> tuple[str, int, int]:
    """Return name, arguments and phase by which a kernel is counted."""
    kernels, operators = trace.kernels, trace.operators
    kind = KernelKind(int(kernels.kind[row]))
    forward = PHASES.index(Phase.FORWARD)
    if kernels.graph[row]:
        return GRAPH, UNKNOWN, forward
    if kind in _APART:
        return _APART[kind], UNKNOWN, forward
    if call < 0:
        fused = fused_operators(trace.names[int(kernels.name[row])])
        launched = kernels.launch_start_ns[row] >= 0 or not len(operators)
        name = trace.names[int(kernels.name[row])] if launched or fused is not None else BEFORE
        return name, UNKNOWN, forward
    phase = int(operators.phase[call])
    return trace.name_of(call), int(operators.arguments[call]), max(phase, 0)


def _operator(
    trace: Trace,
    key: tuple[str, int, int],
    rows: Sequence[int],
    call: npt.NDArray[np.int32],
) -> TracedOperator:
    name, arguments, phase = key
    kernels = trace.kernels
    calls = {int(call[row]) for row in rows} - {UNKNOWN}
    time_of: Counter[str] = Counter()
    for row in rows:
        time_of[trace.names[int(kernels.name[row])]] += int(kernels.duration_ns[row])
    runs = int(kernels.calls[rows].sum())
    op = canonical_op(name) if calls and is_priced(name) else ""
    return TracedOperator(
        name=name,
        op=op,
        op_class=_class_of(name, op, time_of),
        phase=PHASES[phase],
        arguments=trace.arguments[arguments] if arguments >= 0 else None,
        calls=len(calls) if op or not name.startswith("(") else runs,
        kernels=runs,
        time_s=sum(time_of.values()) / 1e9,
        joined=name != BEFORE and (bool(calls) or name.startswith("(") or _is_fused(name)),
        kernel_names=tuple(name for name, _ in time_of.most_common(_KERNELS_SHOWN)),
    )


def _is_fused(name: str) -> bool:
    return fused_operators(name) is not None


def _class_of(name: str, op: str, kernels: Iterable[str]) -> str:
    if op:
        return REGISTER[op].op_class.value
    if name.startswith("("):
        return name.strip("()").split()[-1] if name in _APART.values() else "other"
    if any(fused_operators(kernel) is not None for kernel in kernels):
        return "fused"
    return OpClass.OTHER.value

"""Operators of a trace with the device time of what they launched.

A kernel was launched by the innermost call, ``aten::cudnn_convolution``; it is counted for the
outermost call around it that graphs know and price, ``aten::convolution``. So traces and graphs
speak of the same operators. What no call launched is named by what it is: part of a graph, a copy,
a collective, or work that was launched before the trace began.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from perfmodel.graph.cost import FORMULA_MODULES
from perfmodel.graph.cost.base import REGISTER, OpClass
from perfmodel.graph.vocabulary import canonical_op
from perfmodel.traces.analysis.steps import launched_before
from perfmodel.traces.analysis.timeline import beside_others
from perfmodel.traces.joining.phases import forward_calls
from perfmodel.traces.kernel_kinds import fused_operators
from perfmodel.traces.trace import (
    PHASES,
    UNKNOWN,
    KernelKind,
    OperatorArguments,
    Trace,
)
from perfmodel.types import Phase

assert FORMULA_MODULES  # their import fills the register

#: What stands for kernels that no operator stands for, by a code.
_BEFORE, _GRAPH = -1, -2
BEFORE = "(launched before the trace)"
_OF_KIND = {KernelKind.COPY: -3, KernelKind.MEMSET: -4, KernelKind.COLLECTIVE: -5}
_APART = {
    _BEFORE: BEFORE, _GRAPH: "(launched as a graph)",
    -3: "(copies)", -4: "(fills)", -5: "(collectives)",
}  # fmt: skip
_KERNELS_SHOWN = 3
_Rows = npt.NDArray[np.int64] | npt.NDArray[np.int32]


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
    alone_s : float or None
        Mean device time of those calls that had the device for themselves: what nothing else took
        cores or bandwidth from. None where there was no such call.
    joined : bool
        Whether an operator, or a name of its own (graph, copy, collective), stands for it.
    kernel_names : tuple of str
        The longest running, longest first.
    forward : str
        Of backward calls the forward operator that they answer, by sequence number; ``""`` where
        the trace does not tell.
    """

    name: str
    op: str
    op_class: str
    phase: Phase
    arguments: OperatorArguments | None
    calls: int
    kernels: int
    time_s: float
    alone_s: float | None
    joined: bool
    kernel_names: tuple[str, ...]
    forward: str = ""

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
    priced = priced_calls(trace)
    current = found.copy()
    waiting = np.flatnonzero(current >= 0)
    while len(waiting):
        knows = priced[current[waiting]]
        found[waiting[knows]] = current[waiting[knows]]
        current[waiting] = operators.parent[current[waiting]]
        waiting = waiting[current[waiting] >= 0]
    return found


def traced_operators(trace: Trace, rows: _Rows | None = None) -> tuple[TracedOperator, ...]:
    """Return the operators behind kernels, longest first.

    Parameters
    ----------
    rows : ndarray or None
        Kernels to count; None for all.
    """
    chosen = np.arange(len(trace.kernels)) if rows is None else rows
    call = counted_calls(trace)[chosen]
    keys = _keys(trace, chosen, call)
    order = np.lexsort(keys[::-1])
    edges = np.flatnonzero(np.any([np.diff(key[order]) != 0 for key in keys], axis=0)) + 1
    groups = np.split(order, edges) if len(order) else []
    runs = _Runs(
        trace=trace, beside=beside_others(trace.kernels), forward=forward_calls(trace.operators)
    )
    found = [
        _operator(runs, _Key(*(int(key[group[0]]) for key in keys)), chosen[group], call[group])
        for group in groups
    ]
    return tuple(sorted(found, key=lambda one: -one.time_s))


def joined_share(operators: Iterable[TracedOperator]) -> float:
    """Return the share of device time that is joined or named, in [0, 1]; 1 of nothing.

    What was launched before the trace began is not counted: nothing in the trace says by whom.
    """
    counted = [one for one in operators if one.name != BEFORE]
    total_s = sum(one.time_s for one in counted)
    return sum(one.time_s for one in counted if one.joined) / total_s if total_s else 1.0


def priced_calls(trace: Trace) -> npt.NDArray[np.bool_]:
    """Tell of each call whether graphs price it and it works on what it was given.

    Under autocast an operator casts its operands and is called once more inside of itself: that
    call, with the operands as they are computed with, is the one.
    """
    operators = trace.operators
    if not len(operators):
        return np.zeros(0, dtype=np.bool_)
    found = _priced(trace)[operators.name]
    inner = np.flatnonzero((operators.parent >= 0) & (operators.arguments >= 0))
    outer = operators.parent[inner]
    again = (operators.name[inner] == operators.name[outer]) & (operators.arguments[outer] >= 0)
    inner, outer = inner[again], outer[again]
    pairs = np.stack((operators.arguments[outer], operators.arguments[inner]))
    kinds, kind = np.unique(pairs, axis=1, return_inverse=True)
    cast = [_cast(trace.arguments[given], trace.arguments[used]) for given, used in kinds.T]
    found[outer[np.array(cast, dtype=np.bool_)[kind.ravel()]]] = False
    return found


def _cast(given: OperatorArguments, used: OperatorArguments) -> bool:
    """Tell whether arguments are the same but for the types of some."""
    before = [(tensor.shape, tensor.dtype) for tensor in given.tensors]
    after = [(tensor.shape, tensor.dtype) for tensor in used.tensors]
    shapes = [shape for shape, _ in before] == [shape for shape, _ in after]
    return shapes and before != after


def _priced(trace: Trace) -> npt.NDArray[np.bool_]:
    """Tell of each name of a trace whether it is that of an operator which graphs price."""
    return np.array([is_priced(name) for name in trace.names], dtype=np.bool_)


def is_priced(name: str) -> bool:
    """Tell whether a name of a trace is that of an operator which graphs price."""
    if "::" not in name or " " in name:
        return False
    entry = REGISTER.get(canonical_op(name))
    return entry is not None and entry.op_class is not OpClass.VIEW


class _Key(NamedTuple):
    """What kernels have in common that are counted together.

    ``label`` is a position in the trace's names, or a code of :data:`_APART` for what no operator
    stands for; phases and arguments are numbers as in the columns of operators.
    """

    label: int
    arguments: int
    phase: int


@dataclass(frozen=True, kw_only=True)
class _Runs:
    """A trace with what is found of all of its kernels and calls at once."""

    trace: Trace
    beside: npt.NDArray[np.bool_]
    forward: _Rows


def _keys(trace: Trace, rows: _Rows, call: _Rows) -> tuple[_Rows, _Rows, _Rows]:
    """Return label, arguments and phase of some kernels."""
    kernels, operators = trace.kernels, trace.operators
    label = kernels.name[rows].astype(np.int64)
    arguments = np.full(len(rows), UNKNOWN, dtype=np.int64)
    phase = np.full(len(rows), PHASES.index(Phase.FORWARD), dtype=np.int64)
    fused = np.array([fused_operators(name) is not None for name in trace.names], dtype=np.bool_)
    if len(operators):
        label[launched_before(trace)[rows] & ~fused[label]] = _BEFORE
        called = np.flatnonzero(call >= 0)
        phase[called] = np.maximum(operators.phase[call[called]], 0)
        # A fused kernel stands for itself where what called it is a range around many of them.
        known = fused | _priced(trace)
        of_itself = fused[kernels.name[rows[called]]] & ~known[operators.name[call[called]]]
        label[called[of_itself]] = kernels.name[rows[called[of_itself]]]
        called = called[~of_itself]
        label[called] = operators.name[call[called]]
        arguments[called] = operators.arguments[call[called]]
    for kind, code in _OF_KIND.items():
        label[kernels.kind[rows] == kind] = code
    label[kernels.graph[rows]] = _GRAPH
    arguments[label < 0] = UNKNOWN
    phase[label < 0] = PHASES.index(Phase.FORWARD)
    return label, arguments, phase


def _operator(found: _Runs, key: _Key, rows: _Rows, call: _Rows) -> TracedOperator:
    trace, kernels = found.trace, found.trace.kernels
    named = key.label < 0
    name = _APART[key.label] if named else trace.names[key.label]
    own = np.flatnonzero(call >= 0)
    own = own[:0] if named else own[trace.operators.name[call[own]] == key.label]
    # A call that sums stand for was made as often as what it launched.
    calls = int(kernels.calls[rows[own[np.unique(call[own], return_index=True)[1]]]].sum())
    longest = _longest(trace, rows)
    op = canonical_op(name) if calls and is_priced(name) else ""
    runs = int(kernels.calls[rows].sum())
    return TracedOperator(
        name=name,
        op=op,
        op_class=_class_of(op, key.label, longest),
        phase=PHASES[key.phase],
        arguments=trace.arguments[key.arguments] if key.arguments >= 0 else None,
        calls=calls or runs,
        kernels=runs,
        time_s=int(kernels.duration_ns[rows].sum()) / 1e9,
        alone_s=_alone_s(found, rows[own], call[own]) if calls else None,
        joined=(named and key.label != _BEFORE) or calls > 0 or fused_operators(name) is not None,
        kernel_names=longest,
        forward="" if named else most_answered(trace, found.forward[call[call >= 0]]),
    )


def _alone_s(found: _Runs, rows: _Rows, call: _Rows) -> float | None:
    """Return the mean device time of calls none of whose kernels had others beside it."""
    kernels = found.trace.kernels
    alone = ~np.isin(call, call[found.beside[rows]])
    if not alone.any():
        return None
    rows, first = rows[alone], np.unique(call[alone], return_index=True)[1]
    total_ns = int(kernels.duration_ns[rows].sum())
    return total_ns / 1e9 / max(int(kernels.calls[rows[first]].sum()), 1)


def most_answered(trace: Trace, calls: _Rows) -> str:
    """Return the name of most of some forward calls; -1 stands for none."""
    names, counts = np.unique(trace.operators.name[calls[calls >= 0]], return_counts=True)
    return trace.names[int(names[np.argmax(counts)])] if len(names) else ""


def _longest(trace: Trace, rows: _Rows) -> tuple[str, ...]:
    """Return the names of the kernels that ran longest together."""
    names, group = np.unique(trace.kernels.name[rows], return_inverse=True)
    total = np.bincount(group, weights=trace.kernels.duration_ns[rows])
    shown = np.argsort(-total, kind="stable")[:_KERNELS_SHOWN]
    return tuple(trace.names[int(names[i])] for i in shown)


def _class_of(op: str, label: int, kernels: Iterable[str]) -> str:
    if op:
        return REGISTER[op].op_class.value
    if label in _OF_KIND.values():
        return _APART[label].strip("()")
    if label >= 0 and any(fused_operators(kernel) is not None for kernel in kernels):
        return "fused"
    return OpClass.OTHER.value

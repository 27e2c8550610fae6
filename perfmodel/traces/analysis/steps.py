"""Which part of a trace is which step.

A trace marks its steps (``ProfilerStep#3``), or repeats itself: then the sequence of kernels that
makes up the trace over and over is taken for a step. Layers of a model repeat as well: what stands
before and behind them, embeddings and heads, tells them apart, as far as it is something else. So
this is said where it was done, and not done inside of CUDA and HIP graphs. A device works on after
the host has ended its step, so that the work of a step is what was launched during it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from perfmodel.traces.limits import LATEST_NS
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace

Found = Literal["marked", "repetition", "whole"]

#: Share of kernels that must be equal one period later for a trace to repeat itself.
_ALIKE = 0.95
#: Share of a trace before that, in which first steps choose algorithms. The backward passes of
#: layers, which repeat as well, have more before them.
_BEFORE = 0.25
#: A period of fewer kernels is a loop inside a step.
_SHORTEST = 8
#: Kernels that are looked at; a trace that repeats itself shows it in them.
_LOOKED_AT = 40_000
_CANDIDATES = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class StepWindow:
    """One step.

    Parameters
    ----------
    start_ns, end_ns : int
        A marked step begins with its mark, but no earlier than the work of those before has ended.
        It ends with its mark, or where the next begins if its work, or the mark, lasts longer.
    """

    name: str
    start_ns: int
    end_ns: int

    @property
    def duration_s(self) -> float:
        """Seconds."""
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps:
    """The steps of a trace.

    Parameters
    ----------
    found : str
        ``"marked"`` by the trace, by ``"repetition"``, or the ``"whole"`` trace taken for one.
    of_kernel : ndarray of int32
        Position of the step in which each kernel was launched; -1 outside of steps.
    """

    found: Found
    windows: tuple[StepWindow, ...]
    of_kernel: npt.NDArray[np.int32]

    @property
    def step_time_s(self) -> float:
        """Median duration in seconds; 0 where there is no step."""
        return statistics.median([one.duration_s for one in self.windows] or [0.0])


def find_steps(trace: Trace) -> Steps:
    """Return the steps of a trace; summaries without a timeline have none."""
    kernels = trace.kernels
    if trace.steps:
        return _marked(trace)
    timed = kernels.start_ns >= 0
    if not timed.any() and not (trace.operators.start_ns >= 0).any():
        return Steps(found="whole", windows=(), of_kernel=np.full(len(kernels), -1, dtype=np.int32))
    return _repeated(trace) or _whole(trace)


def _marked(trace: Trace) -> Steps:
    kernels, marks = trace.kernels, trace.steps
    starts = np.array([one.start_ns for one in marks], dtype=np.int64)
    ends = starts + np.array([max(one.duration_ns, 0) for one in marks], dtype=np.int64)
    launched = _launched_ns(trace)
    place = np.searchsorted(starts, launched, side="right") - 1
    inside = (place >= 0) & (launched <= ends[np.maximum(place, 0)])
    of_kernel = np.where(inside, place, -1).astype(np.int32)
    # A host runs ahead of its device: what a step launched may run long after the next has begun.
    # Of the next nothing computes before that, unless kernels stay for many steps.
    done = np.zeros(len(marks), dtype=np.int64)
    np.maximum.at(done, of_kernel[inside], kernels.end_ns[inside])
    done = np.maximum.accumulate(done)
    first = np.full(len(marks), LATEST_NS)
    computing = inside & (kernels.kind == KernelKind.COMPUTE)
    np.minimum.at(first, of_kernel[computing], kernels.start_ns[computing])
    begins = np.maximum(starts, np.minimum(first, np.concatenate(([0], done[:-1]))))
    begins = np.maximum.accumulate(begins)
    nexts = np.concatenate((begins[1:], np.maximum(ends, done)[-1:]))
    ends = np.where(done > ends, nexts, np.minimum(ends, nexts))
    windows = tuple(
        StepWindow(name=mark.name, start_ns=begin, end_ns=end)
        for mark, begin, end in zip(marks, begins.tolist(), ends.tolist(), strict=True)
    )
    return Steps(found="marked", windows=windows, of_kernel=of_kernel)


def launched_before(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return which kernels were launched before the trace began.

    Nothing tells what launched them, and none of which it is told ran before them on their queue:
    queues keep the order of launches.
    """
    kernels, told = trace.kernels, _told_ns(trace) >= 0
    if not told.any():
        return told
    queue = np.unique(kernels.queue, return_inverse=True)[1]
    first_ns = np.full(int(queue.max()) + 1, LATEST_NS)
    np.minimum.at(first_ns, queue[told], kernels.start_ns[told])
    early = (kernels.start_ns < first_ns[queue]) | (kernels.stream < 0)
    return np.asarray(~told & early)


def _told_ns(trace: Trace) -> npt.NDArray[np.int64]:
    """Return when each kernel was launched: by its call, else by its operator; -1 untold."""
    kernels = trace.kernels
    launched = kernels.launch_start_ns.astype(np.int64)
    called = np.flatnonzero((launched < 0) & (kernels.operator >= 0))
    launched[called] = trace.operators.start_ns[kernels.operator[called]]
    return launched


def _launched_ns(trace: Trace) -> npt.NDArray[np.int64]:
    """Return when each kernel was launched; when it ran, where that is untold; -1 before all."""
    launched = _told_ns(trace)
    untold = np.flatnonzero((launched < 0) & ~launched_before(trace))
    launched[untold] = trace.kernels.start_ns[untold]
    return launched


def _whole(trace: Trace) -> Steps:
    kernels, operators = trace.kernels, trace.operators
    begun = [c[c >= 0] for c in (kernels.start_ns, kernels.launch_start_ns, operators.start_ns)]
    ended = (kernels.end_ns, operators.start_ns + operators.duration_ns)
    start = min(int(column.min()) for column in begun if len(column))
    end = max(int(column.max(initial=0)) for column in ended)
    of_kernel = np.where(kernels.start_ns >= 0, 0, -1).astype(np.int32)
    window = StepWindow(name="the whole trace", start_ns=start, end_ns=end)
    return Steps(found="whole", windows=(window,), of_kernel=of_kernel)


def _repeated(trace: Trace) -> Steps | None:
    """Return the steps of a trace that repeats itself; the rest before and after is no step.

    What repeats is what devices computed, or where nothing ran on a device what was called.
    """
    kernels, calls = trace.kernels, trace.operators
    ran = kernels if len(kernels) else calls
    timed = (ran.start_ns >= 0) & (ran.duration_ns >= 0)
    if len(kernels):
        timed &= (kernels.kind == KernelKind.COMPUTE) & ~launched_before(trace)
    rows = np.flatnonzero(timed)
    order = rows[np.argsort(ran.start_ns[rows], kind="stable")]
    names = ran.name[order]
    period = None if kernels.graph.any() else repetition(names[:_LOOKED_AT])
    if period is None:
        return None
    offset = _first_whole(names, period)
    count = (len(order) - offset) // period
    whole = order[offset : offset + count * period]
    # A first step of its own is as long as the others.
    before = order[: offset if offset < period else 0]
    around = np.concatenate((before, order[offset + len(whole) :]))
    if not np.isin(_kinds(trace, around), _kinds(trace, whole[:_LOOKED_AT])).all():
        return None
    last = whole[-period:]
    end_ns = int((ran.start_ns[last] + ran.duration_ns[last]).max())
    edges = np.concatenate((ran.start_ns[whole[::period]], [end_ns]))
    place = np.searchsorted(edges, kernels.start_ns, side="right") - 1
    inside = (place >= 0) & (place < count) & (kernels.start_ns >= 0)
    windows = tuple(
        StepWindow(name=f"repetition {i}", start_ns=int(edges[i]), end_ns=int(edges[i + 1]))
        for i in range(count)
    )
    return Steps(
        found="repetition",
        windows=windows,
        of_kernel=np.where(inside, place, -1).astype(np.int32),
    )


def _kinds(trace: Trace, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return one number for the name of each kernel, or call, and the arguments of its call."""
    kernels, calls = trace.kernels, trace.operators
    ran, call = (kernels, kernels.operator[rows]) if len(kernels) else (calls, rows)
    arguments = np.full(len(rows), UNKNOWN, dtype=np.int64)
    arguments[call >= 0] = calls.arguments[call[call >= 0]]
    return (ran.name[rows].astype(np.int64) << 32) + arguments


def repetition(names: npt.NDArray[np.int32]) -> int | None:
    """Return after how many entries a sequence repeats itself, or None.

    Candidates are distances between occurrences of a rare entry: each stands once in a period.

    Examples
    --------
    >>> repetition(np.array([*range(9)] * 4, dtype=np.int32))
    9
    """
    if len(names) < 2 * _SHORTEST:
        return None
    values, counts = np.unique(names, return_counts=True)
    found: list[int] = []
    for value in values[counts >= 2][np.argsort(counts[counts >= 2])][:_CANDIDATES].tolist():
        places = np.flatnonzero(names == value)
        for distance in (int(places[1] - places[0]), int(np.median(np.diff(places)))):
            if distance >= _SHORTEST and 2 * distance <= len(names):
                found.append(distance)
    alike = {period: _alike(names, period) for period in set(found)}
    best = max(alike, key=lambda period: (alike[period], -period), default=0)
    return best if alike.get(best, 0.0) >= _ALIKE else None


def _alike(names: npt.NDArray[np.int32], period: int) -> float:
    """Return the share of entries that are equal one period later, from the first such on."""
    begin = _first_whole(names, period)
    begin = begin if begin <= _BEFORE * len(names) else 0
    return float(np.mean(names[begin + period :] == names[begin:-period]))


def _first_whole(names: npt.NDArray[np.int32], period: int) -> int:
    """Return where the first period begins that equals its successor."""
    same = np.concatenate(([0], np.cumsum(names[period:] == names[:-period])))
    whole = same[period:] - same[:-period] >= _ALIKE * period
    return int(np.argmax(whole)) if whole.any() else 0

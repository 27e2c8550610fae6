"""Kernels of an accelerator by the operator call that launched them, read from a trace.

The profiler of PyTorch writes its trace to a file, and the reader of traces joins it as it joins
anybody's (:mod:`perfmodel.traces`): a kernel to the call that launched it by correlation id,
backward to forward by sequence number. Here the time of each kernel goes to the outermost call that
a graph has a node for, and the sequence of those calls is joined to the graph as on a CPU. Copies
between host and device and collectives are no operator's work: they keep names of their own.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from perfmodel.graph.ir import Graph
from perfmodel.profilers.operators.dispatched import OperatorEvent, is_dispatched, join_operators
from perfmodel.profilers.operators.fused_kernels import fused_names
from perfmodel.profilers.operators.joined import JoinedOperators
from perfmodel.profilers.operators.step_operators import StepOperators
from perfmodel.profilers.runtime import DeviceRuntime
from perfmodel.traces.analysis.timeline import device_times
from perfmodel.traces.formats.registry import read_trace
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace

#: What copies, fills and collectives are called that are no operator's work.
_KIND_NAMES = {
    KernelKind.COPY: "copy",
    KernelKind.MEMSET: "memset",
    KernelKind.COLLECTIVE: "collective",
}
#: Copies that leave the device or come to it.
_CROSSING = re.compile(r"HtoD|DtoH|PtoP|HostToDevice|DeviceToHost", re.IGNORECASE)


@final
@dataclass(frozen=True)
class DeviceOperators(StepOperators):
    """What an accelerator ran in some steps, one trace each."""

    traces: Sequence[Trace]

    @cached_property
    def busy_s(self) -> float | None:
        """Median seconds of a step in which the device ran any kernel, copy or collective."""
        return statistics.median(map(busy_seconds, self.traces)) if self.traces else None

    def join(self, graph: Graph) -> JoinedOperators:
        """Join the time of kernels to nodes through the calls that launched them."""
        return join_operators(graph, [tuple(kernel_events(trace)) for trace in self.traces])


@final
@dataclass(frozen=True)
class WrittenTraces(StepOperators):
    """What a profiler wrote of some steps, one file each; read when it is asked for."""

    files: Sequence[bytes]

    @cached_property
    def read(self) -> DeviceOperators:
        """The traces in the files."""
        traces = []
        with tempfile.TemporaryDirectory() as folder:
            for number, content in enumerate(self.files):
                path = Path(folder) / f"step-{number}.json"
                path.write_bytes(content)
                traces.append(read_trace(path))
        return DeviceOperators(traces)

    @property
    def busy_s(self) -> float | None:
        """That of the traces."""
        return self.read.busy_s

    def join(self, graph: Graph) -> JoinedOperators:
        """Join the traces."""
        return self.read.join(graph)


def profile_device(
    step: Callable[[], object], runtime: DeviceRuntime, *, steps: int
) -> WrittenTraces:
    """Run steps under torch.profiler and keep what it wrote, which is read without the device.

    Parameters
    ----------
    step : callable
        Performs one step; warm.
    steps : int
        Profiled steps, >= 1.
    """
    from torch.profiler import profile, supported_activities

    activities = supported_activities()  # type: ignore[no-untyped-call]
    files = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.json"
        for _ in range(steps):
            runtime.synchronise()
            with profile(activities=activities, record_shapes=True) as profiler:
                step()
                runtime.synchronise()
            profiler.export_chrome_trace(str(path))
            files.append(path.read_bytes())
    return WrittenTraces(files)


def busy_seconds(trace: Trace) -> float:
    """Return the seconds in which any device of a trace ran anything; several count together."""
    kernels = trace.kernels
    timed = kernels.start_ns >= 0
    if not timed.any():
        return 0.0
    begin_ns, end_ns = int(kernels.start_ns[timed].min()), int(kernels.end_ns[timed].max())
    return sum(one.window_s - one.idle_s for one in device_times(kernels, begin_ns, end_ns))


def kernel_events(trace: Trace) -> Iterator[OperatorEvent]:
    """Yield the calls of a trace in program order, each with the time of its kernels.

    Kernels without such a call follow under names of their own, so that the sum of all is the
    time of all kernels.
    """
    operators, kernels = trace.operators, trace.kernels
    outermost = _outermost_dispatched(trace)
    owner = np.full(len(kernels), UNKNOWN, dtype=np.int64)
    launched = kernels.operator >= 0
    owner[launched] = outermost[kernels.operator[launched]]
    crossing = np.array(
        [_CROSSING.search(name) is not None for name in trace.names], dtype=np.bool_
    )
    apart = kernels.kind == KernelKind.COLLECTIVE
    if len(kernels):
        apart |= (kernels.kind == KernelKind.COPY) & crossing[kernels.name]
    owner = np.where(apart, UNKNOWN, owner)
    spent_ns = np.zeros(len(operators), dtype=np.int64)
    np.add.at(spent_ns, owner[owner >= 0], kernels.duration_ns[owner >= 0])
    calls = np.flatnonzero(outermost == np.arange(len(operators)))
    for row in calls[np.argsort(operators.start_ns[calls], kind="stable")].tolist():
        arguments = trace.arguments_of(row)
        tensors = () if arguments is None else arguments.tensors
        yield OperatorEvent(
            op=trace.name_of(row).removeprefix("aten::"),
            shapes=tuple(tensor.shape for tensor in tensors if tensor.shape),
            time_s=int(spent_ns[row]) / 1e9,
        )
    for row in np.flatnonzero(owner < 0).tolist():
        kind = KernelKind(int(kernels.kind[row]))
        name = trace.names[int(kernels.name[row])]
        yield OperatorEvent(
            op=_KIND_NAMES.get(kind, name), shapes=(), time_s=int(kernels.duration_ns[row]) / 1e9
        )


def _outermost_dispatched(trace: Trace) -> npt.NDArray[np.int64]:
    """Return for each call the outermost one around it, or itself, that a graph has a node for.

    A fused kernel is launched inside of the call of its compiled region, which is none.
    """
    operators = trace.operators
    known = np.array([is_dispatched(name) for name in trace.names], dtype=np.bool_)
    fused = np.array([fused_names(name) is not None for name in trace.names], dtype=np.bool_)
    own = known[operators.name] if len(operators) else np.zeros(0, dtype=np.bool_)
    keeps = fused[operators.name] if len(operators) else own
    rows = np.arange(len(operators), dtype=np.int64)
    found = np.where(own, rows, UNKNOWN)
    above = operators.parent.astype(np.int64)
    # One level outwards a round; a call further out that is known takes the place.
    while (above >= 0).any():
        inside = above >= 0
        better = inside & own[np.maximum(above, 0)] & ~(keeps & (found >= 0))
        found[better] = above[better]
        above = np.where(inside, operators.parent[np.maximum(above, 0)], UNKNOWN)
    return found

"""Profiles of ONNX Runtime: JSON that a session writes with ``enable_profiling``.

Every run of a node is an event with its operator, shapes and provider, every run of the model one
behind them; times are whole microseconds. Providers that compute on the host have computed when
the node returns: its time is the kernel's. Those of GPUs have only launched; builds of ONNX Runtime
that profile GPUs write kernels as events of their own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.argument_table import ArgumentTable
from perfmodel.traces.formats.json_events import JsonEvents
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import DEFAULT_LIMITS, LATEST_NS, TraceLimits
from perfmodel.traces.trace import (
    UNKNOWN,
    OperatorArguments,
    Trace,
    TracedInput,
    TracedStep,
    TracedTensor,
)
from perfmodel.traces.traced_devices import TracedDevice

NAME = "onnxruntime"
_BEGINNING = re.compile(rb'\s*\[\s*\{\s*"cat"\s*:\s*"(?:Session|Node|Kernel|Api)"')
#: What tells an event of a node, in whatever order another program wrote its members.
_NODE_OF = re.compile(rb'"name"\s*:\s*"[^"]*_kernel_time"')
_NODE_END = "_kernel_time"
_RUN = "model_run"
#: Operators that run graphs of their own, whose nodes are events as well.
_AROUND = frozenset({"If", "Loop", "Scan", "SequenceMap"})
_LAUNCHING = frozenset(
    {"CUDAExecutionProvider", "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider",
     "ROCMExecutionProvider", "MIGraphXExecutionProvider", "DmlExecutionProvider",
     "WebGpuExecutionProvider", "JsExecutionProvider", "CANNExecutionProvider"}
)  # fmt: skip
#: Names of types in ONNX Runtime's profiles -> dtype, where they differ.
_DTYPES: Mapping[str, str] = MappingProxyType(
    {
        "float": "float32", "double": "float64", "float8e4m3fn": "float8_e4m3fn",
        "float8e5m2": "float8_e5m2", "float8e4m3fnuz": "float8_e4m3fnuz",
        "float8e5m2fnuz": "float8_e5m2fnuz",
    }
)  # fmt: skip
_ALIKE = frozenset(
    {"float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
     "uint8", "bool", "int4", "uint4"}
)  # fmt: skip


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a profile of ONNX Runtime."""
    if not head.lstrip().startswith(b"["):
        return False
    return _BEGINNING.match(head) is not None or (
        b'"op_name"' in head and _NODE_OF.search(head) is not None
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeRun:
    """One run of a node.

    Parameters
    ----------
    node : str
        Its name in the optimised graph.
    operator : str
        ONNX operator, or one of ONNX Runtime's own.
    provider : str
        Execution provider that ran or launched it.
    own_ns : int
        Without what ran inside of it, for operators that hold graphs.
    """

    node: str
    operator: str
    provider: str
    start_ns: int
    duration_ns: int
    own_ns: int


class _OwnTimes:
    """Takes from operators that hold graphs the time of the nodes inside, which end before them."""

    def __init__(self) -> None:
        self._ended: dict[int, list[tuple[int, int]]] = {}

    def of(self, thread: int, operator: str, start_ns: int, duration_ns: int) -> int:
        """Return the time of a node less that of the nodes that ended on its thread meanwhile."""
        ended = self._ended.setdefault(thread, [])
        inside_ns = 0
        while operator in _AROUND and ended and ended[-1][0] >= start_ns:
            inside_ns += ended.pop()[1]
        ended.append((start_ns, duration_ns))
        return max(duration_ns - inside_ns, 0)

    def run_ended(self) -> None:
        """Forget the nodes of a run."""
        self._ended.clear()


def read(path: Path, limits: TraceLimits = DEFAULT_LIMITS) -> Trace:
    """Read a profile: nodes as operators, what ran for each as a kernel, runs as steps.

    A kernel bears the name of its node, an operator the name of its ONNX operator.

    Raises
    ------
    InvalidTraceError
        It is cut, damaged, or no run was profiled.
    """
    rows = _Rows(TraceBuilder(NAME, limits))
    rows.builder.notes += _take(path, limits, rows.add)
    if not rows.builder.operator_count and not rows.builder.kernel_count:
        raise InvalidTraceError(
            f"{path.name} holds no run of a node; run the session before end_profiling()."
        )
    return rows.build()


def node_runs(path: Path) -> tuple[tuple[NodeRun, ...], ...]:
    """Return the nodes that each run of the model ran, in the order of the profile.

    Raises
    ------
    InvalidTraceError
        It is cut or damaged.
    """
    runs: list[list[NodeRun]] = [[]]
    own = _OwnTimes()

    def add(event: Mapping[str, Any]) -> None:
        # Nodes come before the event of their run.
        found = _node_run(event, own)
        if found is not None:
            runs[-1].append(found)
        elif event.get("name") == _RUN and runs[-1]:
            runs.append([])
            own.run_ended()

    _take(path, DEFAULT_LIMITS, add)
    return tuple(tuple(run) for run in runs if run)


def _take(path: Path, limits: TraceLimits, add: Callable[[Mapping[str, Any]], None]) -> list[str]:
    """Give every event of a profile to a function; return what is to be noted."""
    events = JsonEvents(unpacked(path, limits), key="", name=path.name, limits=limits.small_events)
    for batch in events.batches():
        for event in batch:
            try:
                add(event)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise InvalidTraceError(
                    f"{path.name} has an event that is not as ONNX Runtime writes it "
                    f"({type(error).__name__}: {error}): {str(event)[:100]}."
                ) from error
    if events.cut:
        raise InvalidTraceError(
            f"{path.name} is cut: {events.cut}. ONNX Runtime ends it in session.end_profiling()."
        )
    return events.notes()


def _node_run(event: Mapping[str, Any], own: _OwnTimes) -> NodeRun | None:
    """Return the run of a node that an event tells of, or None for another event."""
    name = str(event.get("name"))
    if event.get("cat") != "Node" or not name.endswith(_NODE_END):
        return None
    facts = event["args"]
    start_ns, duration_ns = _times(event)
    operator = str(facts["op_name"])
    return NodeRun(
        node=name.removesuffix(_NODE_END),
        operator=operator,
        provider=str(facts["provider"]),
        start_ns=start_ns,
        duration_ns=duration_ns,
        own_ns=own.of(int(event["tid"]), operator, start_ns, duration_ns),
    )


class _Rows:
    """Events as rows of a trace."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder = builder
        #: Start and row of the runs of each node.
        self._runs_of_node: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._providers: dict[str, int] = {}
        self._own = _OwnTimes()
        self._arguments = ArgumentTable(builder)

    def add(self, event: Mapping[str, Any]) -> None:
        found = _node_run(event, self._own)
        if found is not None:
            self._node(found, event)
        elif event.get("cat") == "Kernel":
            self._kernel(event, str(event.get("name")))
        elif event.get("name") == _RUN:
            start_ns, duration_ns = _times(event)
            self._own.run_ended()
            number = len(self.builder.steps)
            self.builder.steps.append(
                TracedStep(name=f"run {number}", start_ns=start_ns, duration_ns=duration_ns)
            )

    def build(self) -> Trace:
        self._arguments.note()
        launching = sorted(_LAUNCHING & self._providers.keys())
        if launching:
            self.builder.notes.append(
                f"Times of nodes on {', '.join(launching)} are those of launching them; the GPU's "
                "are its kernels', where this build of ONNX Runtime profiles those."
            )
        if self._together():
            self.builder.notes.append(
                "Runs overlap: several threads or sessions ran at once, so that steps, which end "
                "where the next begins at the latest, are shorter than the runs."
            )
        self.builder.devices += [
            TracedDevice(index=index, name=provider) for provider, index in self._providers.items()
        ]
        return self.builder.build()

    def _together(self) -> bool:
        """Tell whether a run began before another one had ended."""
        steps = sorted(self.builder.steps, key=lambda step: step.start_ns)
        ends = accumulate((step.start_ns + step.duration_ns for step in steps), max)
        return any(step.start_ns < end for step, end in zip(steps[1:], ends, strict=False))

    def _node(self, run: NodeRun, event: Mapping[str, Any]) -> None:
        facts = event["args"]
        device = self._providers.setdefault(run.provider, len(self._providers))
        shapes = facts.get("input_type_shape"), facts.get("output_type_shape")
        row = self.builder.add_operator(
            run.operator,
            start_ns=run.start_ns,
            duration_ns=run.duration_ns,
            thread=int(event["tid"]) % 2**31,
            arguments=self._arguments.position(orjson.dumps(shapes), lambda: _arguments(*shapes)),
        )
        self._runs_of_node[run.node].append((run.start_ns, row))
        if run.provider not in _LAUNCHING:
            # Where the host computes, nothing waits between the call and its work.
            self.builder.add_kernel(
                run.node,
                start_ns=run.start_ns,
                duration_ns=run.own_ns,
                device=device,
                operator=row,
                launch_start_ns=run.start_ns,
                launch_duration_ns=0,
            )

    def _kernel(self, event: Mapping[str, Any], name: str) -> None:
        facts = event.get("args", {})
        start_ns, duration_ns = _times(event)
        parent = str(facts.get("parent_name", "")).removesuffix(_NODE_END)
        # Kernels stand behind their node, or all of them behind the last run.
        runs = self._runs_of_node.get(parent, [])
        began = bisect_left(runs, (start_ns + 1,))
        launch_start_ns, operator = runs[began - 1] if began else (UNKNOWN, UNKNOWN)
        stream = str(facts.get("stream", ""))
        self.builder.add_kernel(
            name,
            start_ns=start_ns,
            duration_ns=duration_ns,
            stream=int(stream) if stream.isdigit() and len(stream) < 10 else UNKNOWN,
            kind=kernel_kind(name),
            operator=operator,
            launch_start_ns=launch_start_ns,
        )


def _times(event: Mapping[str, Any]) -> tuple[int, int]:
    """Return start and duration in nanoseconds."""
    for key in ("ts", "dur"):
        if type(event[key]) is not int or not 0 <= event[key] * 1000 < LATEST_NS:
            raise ValueError(f"{key} is {str(event[key])[:40]}; expected whole microseconds >= 0")
    return event["ts"] * 1000, event["dur"] * 1000


def _arguments(inputs: Any, outputs: Any) -> OperatorArguments:
    return OperatorArguments(
        inputs=tuple(TracedInput(tensors=(tensor,)) for tensor in _tensors(inputs)),
        outputs=_tensors(outputs),
    )


def _tensors(listed: Any) -> tuple[TracedTensor, ...]:
    """Return tensors from a list of objects that give each one's shape under its type."""
    found = []
    for one in listed if isinstance(listed, list) else ():
        for kind, shape in one.items():
            extents = tuple(shape)
            if all(type(extent) is int and 0 <= extent < 2**62 for extent in extents):
                dtype = _DTYPES.get(kind, kind if kind in _ALIKE else "")
                found.append(TracedTensor(shape=extents, dtype=dtype))
    return tuple(found)

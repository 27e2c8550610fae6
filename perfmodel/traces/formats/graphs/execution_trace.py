"""PyTorch execution traces: JSON of ``torch.profiler.ExecutionTraceObserver``, from schema 1.0.1.

Nodes are calls with their shapes, callers and, for linked traces (``chakra_trace_link``), times in
microseconds and the kernels that they launched. Schema 1.0.1 keeps the fields of a node flat,
``...-chakra`` puts most into ``attrs``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.graphs.node_rows import NodeRows
from perfmodel.traces.formats.json_events import JsonEvents
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import LATEST_NS, TraceLimits
from perfmodel.traces.trace import UNKNOWN, Trace

NAME = "pytorch-execution-trace"
_SCHEMA = re.compile(rb'"schema"\s*:\s*"1\.\d')
#: Fields that only a Chrome trace has.
_OTHERS = re.compile(rb'"(?:traceEvents|schemaVersion)"')
_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_GROUPS = "## process_group:init ##"
NO_TIMES = "Calls with their shapes and no times: an execution trace says what ran, not how long."


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is an execution trace."""
    begins = head[:4096]
    return (
        begins.lstrip().startswith(b"{")
        and _SCHEMA.search(begins) is not None
        and _OTHERS.search(begins) is None
    )


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read an execution trace, plain or gzipped.

    Raises
    ------
    InvalidTraceError
        It is cut or damaged.
    """
    name = path.name
    events = JsonEvents(unpacked(path, limits), key="nodes", name=name, limits=limits.small_events)
    nodes = _Nodes(TraceBuilder(NAME, limits), name)
    for batch in events.batches():
        for node in batch:
            nodes.add(node)
    if events.cut:
        raise InvalidTraceError(f"{name} is cut: {events.cut}. Copy it again.")
    nodes.builder.notes += events.notes()
    return nodes.build(str(events.members.get("schema", "")))


class _Nodes:
    """Nodes as rows: calls at once, kernels once all calls are known."""

    def __init__(self, builder: TraceBuilder, file: str) -> None:
        self.builder = builder
        self.rows = NodeRows(builder, file)
        self.file = file
        self.timed = False

    def add(self, node: Any) -> None:
        try:
            self._add(node)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidTraceError(
                f"{self.file} has a node that is none ({type(error).__name__}: {error}): "
                f"{str(node)[:100]}. It is damaged, or of another program."
            ) from error

    def build(self, schema: str) -> Trace:
        self.builder.software["execution_trace_schema"] = schema[:40]
        if not self.timed:
            self.builder.notes.append(NO_TIMES)
        return self.rows.build()

    def _add(self, node: Mapping[str, Any]) -> None:
        flat = "inputs" not in node or isinstance(node["inputs"], list)
        facts = node if flat else {one["name"]: one["value"] for one in node.get("attrs", ())}
        name = str(node["name"])
        times = {}
        if "ts" in node:
            self.timed = True
            times["start_ns"] = _ns(node["ts"])
            times["duration_ns"] = _ns(node.get("inclusive_dur", node.get("dur", 0)))
        if node.get("cat") in _WORK:
            self._kernel(node, name, times)
            return
        caller = node.get("parent" if "parent" in node else "ctrl_deps")
        self.rows.add(
            _id(node["id"]),
            _id(caller) if caller is not None else UNKNOWN,
            name,
            _listed(node, "input") if flat else _nested(node["inputs"]),
            _listed(node, "output") if flat else _nested(node.get("outputs", {})),
            thread=int(facts.get("tid", 0)) % 2**31,
            sequence=max(int(facts.get("seq_id", UNKNOWN)), UNKNOWN),
            **times,
        )
        if name == _GROUPS:
            self._group(node)

    def _kernel(self, node: Mapping[str, Any], name: str, times: Mapping[str, int]) -> None:
        stream = node.get("stream", UNKNOWN)
        self.builder.add_kernel(
            name,
            start_ns=times.get("start_ns", UNKNOWN),
            duration_ns=_ns(node["dur"]),
            stream=stream if isinstance(stream, int) else UNKNOWN,
            kind=kernel_kind(name),
        )
        launcher = node.get("ctrl_deps")
        self.rows.launched(UNKNOWN if launcher is None else _id(launcher))

    def _group(self, node: Mapping[str, Any]) -> None:
        """Take the number of processes from the description of the default process group."""
        inputs = node["inputs"]
        values = inputs if isinstance(inputs, list) else inputs.get("values")
        if not values or not isinstance(values[0], str):
            return
        try:
            groups = orjson.loads(values[0])
        except orjson.JSONDecodeError:
            return
        sizes = [
            group["group_size"]
            for group in groups
            if isinstance(group, dict) and type(group.get("group_size")) is int
        ]
        if sizes and max(sizes) > 0:
            self.builder.world_size = max(sizes)


def _listed(node: Mapping[str, Any], which: str) -> tuple[Any, ...]:
    return (node.get(f"{which}s"), node.get(f"{which}_shapes"), node.get(f"{which}_types"), None)


def _nested(part: Mapping[str, Any]) -> tuple[Any, ...]:
    return (part.get("values"), part.get("shapes"), part.get("types"), part.get("strides"))


def _id(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**62:
        raise ValueError(f"{str(value)[:40]} is no id of a node")
    return value


def _ns(microseconds: Any) -> int:
    if not isinstance(microseconds, int | float) or not 0 <= microseconds * 1e3 < LATEST_NS:
        raise ValueError(f"{str(microseconds)[:40]} is no time in microseconds")
    return round(microseconds * 1000)

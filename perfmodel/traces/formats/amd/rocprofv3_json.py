"""rocprofv3's JSON: ``rocprofv3 --kernel-trace --output-format json``.

One object for each process, with its agents, the symbols of its kernels and, under
``buffer_records``, an array for each kind of event. Timestamps are nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder, duration_ns
from perfmodel.traces.formats.json_sections import JsonPath, json_sections
from perfmodel.traces.formats.launch_calls import LaunchCalls
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace
from perfmodel.traces.traced_devices import traced_device

NAME = "rocprofv3-json"
_ROOT = "rocprofiler-sdk-tool"
_BEGINNING = re.compile(rb'\s*\{\s*"' + _ROOT.encode() + rb'"')
_GPU = 2
#: Correlation ids count from one in each process.
_ID_BITS = 40
#: Calls of HIP that copy memory carry the ids of copies, those that launch the ids of kernels.
_AGENTS: JsonPath = (_ROOT, "agents")
_SYMBOLS: JsonPath = (_ROOT, "kernel_symbols")
_STRINGS: JsonPath = (_ROOT, "strings", "buffer_records")
_DISPATCHES: JsonPath = (_ROOT, "buffer_records", "kernel_dispatch")
_COPIES: JsonPath = (_ROOT, "buffer_records", "memory_copy")
_CALLS: JsonPath = (_ROOT, "buffer_records", "hip_api")


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is JSON of rocprofv3."""
    return _BEGINNING.match(head) is not None


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read kernels, copies and when each was launched, of all processes.

    Raises
    ------
    InvalidTraceError
        It is cut, or a record is not as rocprofv3 writes it.
    """
    run = _taken(path, limits, _Run.new(path.name, limits))
    if any(process.early & process.kernel_names.keys() for process in run.processes.values()):
        # Tools that sort members put records before what names them.
        run = _taken(path, limits, _Run.new(path.name, limits, known=run))
    return run.launches.build()


def _taken(path: Path, limits: TraceLimits, run: _Run) -> _Run:
    """Return a run that has taken in a file."""
    for section, number, elements in json_sections(
        unpacked(path, limits), _TAKERS.keys(), name=path.name, limits=limits
    ):
        process, take = run.process(number), _TAKERS[section]
        try:
            for element in elements:
                take(process, element)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidTraceError(
                f"{path.name} has a record under {'.'.join(section[1:])!r} that is not as "
                f"rocprofv3 writes it ({type(error).__name__}: {error})."
            ) from error
    return run


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What was read so far; ids of kernels, agents and calls count anew in each process."""

    builder: TraceBuilder
    file: str
    launches: LaunchCalls
    processes: dict[int, _Process] = field(default_factory=dict)
    #: The same file, read before.
    known: Self | None = None

    @classmethod
    def new(cls, file: str, limits: TraceLimits, known: Self | None = None) -> Self:
        """Return a run of which nothing was read."""
        builder = TraceBuilder(NAME, limits)
        return cls(builder=builder, file=file, launches=LaunchCalls(builder), known=known)

    def process(self, number: int) -> _Process:
        """Return a process by its place in the file."""
        if number not in self.processes:
            process = self.processes[number] = _Process(run=self, number=number)
            if self.known is not None:
                read_before = self.known.process(number)
                process.kernel_names.update(read_before.kernel_names)
                process.operation_names.update(read_before.operation_names)
        return self.processes[number]


@dataclass(frozen=True, kw_only=True)
class _Process:
    """What was read so far of one process."""

    run: _Run
    number: int
    device_of: dict[int, int] = field(default_factory=dict)
    kernel_names: dict[int, str] = field(default_factory=dict)
    operation_names: dict[tuple[int, int], str] = field(default_factory=dict)
    kinds: list[str] = field(default_factory=list)
    #: Kernels that were met before their symbols.
    early: set[int] = field(default_factory=set)

    def agent(self, agent: Mapping[str, Any]) -> None:
        if agent["type"] != _GPU:
            return
        index = int(agent.get("gpu_index", agent["node_id"]))
        self.device_of[int(agent["id"]["handle"])] = index
        devices = self.run.builder.devices
        if all(one.index != index for one in devices):
            devices.append(
                traced_device(
                    index,
                    str(agent.get("product_name") or ""),
                    memory_bytes=sum(bank["size_in_bytes"] for bank in agent.get("mem_banks", ()))
                    or None,
                    multiprocessors=agent["cu_count"],
                    architecture=str(agent["name"]),
                )
            )

    def symbol(self, symbol: Mapping[str, Any]) -> None:
        name = symbol.get("formatted_kernel_name") or symbol.get("kernel_name")
        self.kernel_names[int(symbol["kernel_id"])] = str(name or "")

    def operations(self, kind: Mapping[str, Any]) -> None:
        for number, name in enumerate(kind["operations"]):
            self.operation_names[len(self.kinds), number] = str(name)
        self.kinds.append(str(kind["kind"]))

    def dispatch(self, record: Mapping[str, Any]) -> None:
        launch = record["dispatch_info"]
        number = int(launch["kernel_id"])
        if number not in self.kernel_names:
            self.early.add(number)
        name = self.kernel_names.get(number) or f"kernel {number}, whose symbol is not in the file"
        self._add(record, name, launch["agent_id"], kernel_kind(name), UNKNOWN)

    def copy(self, record: Mapping[str, Any]) -> None:
        name = self.operation_names.get((record["kind"], record["operation"]), "MEMORY_COPY")
        device = record["dst_agent_id"]
        if int(device["handle"]) not in self.device_of:
            device = record["src_agent_id"]
        self._add(record, name, device, KernelKind.COPY, int(record.get("bytes", UNKNOWN)))

    def call(self, record: Mapping[str, Any]) -> None:
        start_ns = int(record["start_timestamp"])
        took_ns = duration_ns(
            self.run.file, "A call of HIP", start_ns, int(record["end_timestamp"])
        )
        name = self.operation_names.get((record.get("kind", 0), record.get("operation", 0)), "")
        self.run.launches.add(
            self._correlation(record),
            start_ns,
            took_ns,
            graph="GraphLaunch" in name,
        )

    def _add(
        self,
        record: Mapping[str, Any],
        name: str,
        agent: Mapping[str, Any],
        kind: KernelKind,
        size_bytes: int,
    ) -> None:
        start_ns = int(record["start_timestamp"])
        self.run.builder.add_kernel(
            name,
            start_ns=start_ns,
            duration_ns=duration_ns(self.run.file, name, start_ns, int(record["end_timestamp"])),
            device=self.device_of.get(int(agent["handle"]), UNKNOWN),
            stream=int(record.get("stream_id", {}).get("handle", UNKNOWN)),
            kind=kind,
            size_bytes=size_bytes,
        )
        self.run.launches.of_kernels.append(self._correlation(record))

    def _correlation(self, record: Mapping[str, Any]) -> int:
        """Return a number that a call and what it launched share, and no other process has."""
        number = int(record["correlation_id"]["internal"])
        return self.number << _ID_BITS | number if 0 < number < 1 << _ID_BITS else UNKNOWN


_TAKERS = {
    _AGENTS: _Process.agent, _SYMBOLS: _Process.symbol, _STRINGS: _Process.operations,
    _DISPATCHES: _Process.dispatch, _COPIES: _Process.copy, _CALLS: _Process.call,
}  # fmt: skip

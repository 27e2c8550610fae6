"""Tables of kernel dispatches: rocprof v1 and v2, rocprofv3, and as rocprofiler-compute keeps them.

A row is one dispatch with the time of its start and end in nanoseconds. The generations differ in
the names of columns; the machine is described in a table beside this one.
"""

from __future__ import annotations

from pathlib import Path

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder, duration_ns
from perfmodel.traces.formats.amd.machine import AgentTable, read_agents
from perfmodel.traces.formats.tables import Table, fold, header_of, open_table
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace

NAME = "rocprof"

#: Columns of rocprofv3, rocprofv2 and rocprofiler-compute, rocprof v1.
_KERNEL = ("Kernel_Name", "KernelName")
_START = ("Start_Timestamp", "BeginNs")
_END = ("End_Timestamp", "EndNs")
_DEVICE = ("Agent_Id", "GPU_ID", "gpu-id")
_STREAM = ("Stream_Id", "Queue_Id", "queue-id")
#: What stands in for the name of a kernel where something else ran, in tables of rocprofv2.
_OPERATION = ("Operation", "Function")
#: In the tables of rocprofv3 that list each dispatch once a counter.
_COUNTER = "countername"
#: Columns, folded, of tables without counters.
_NO_COUNTERS = frozenset(
    {
        "guid", "kind", "domain", "operation", "function", "agentid", "gpuid", "queueid",
        "queueindex", "streamid", "threadid", "pid",
        "tid", "processid", "dispatchid", "kernelid", "kernelname", "correlationid", "index",
        "starttimestamp", "endtimestamp", "beginns", "endns", "dispatchns", "completens",
        "durationns", "ldsblocksize", "ldsperworkgroup", "lds", "scratchsize",
        "scratchperworkitem", "scr", "vgprcount", "vgpr", "archvgpr", "accumvgprcount",
        "accumvgpr", "sgprcount", "sgpr", "privatesegmentsize", "groupsegmentsize",
        "workgroupsize", "gridsize", "workgroupsizex", "workgroupsizey", "workgroupsizez",
        "gridsizex", "gridsizey", "gridsizez", "grd", "wgp", "wgr", "wavesize", "sig", "obj",
        "fbar",
    }
)  # fmt: skip


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a table of dispatches; also one that is refused for lack of times."""
    return header_of(head, _is_dispatches) is not None


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read a table of dispatches, with the description of the machine that lies beside it.

    Raises
    ------
    InvalidTraceError
        Times are absent, rounded or impossible.
    """
    table = open_table(path, limits, _is_dispatches)
    builder = TraceBuilder(NAME, limits)
    _refuse_without_times(table)
    agents = read_agents(path, limits)
    devices = _add_rows(builder, table, agents)
    builder.devices.extend(agents.devices(devices))
    builder.software.update(agents.software)
    _note_counters(builder, table)
    _add_copies(builder, path, limits, agents, devices)
    return builder.build()


def _is_dispatches(columns: frozenset[str]) -> bool:
    named = any(fold(name) in columns for name in _KERNEL)
    return named and any(fold(name) in columns for name in (*_DEVICE, *_START))


def _refuse_without_times(table: Table) -> None:
    if fold(_COUNTER) in map(fold, table.header):
        raise InvalidTraceError(
            f"{table.name} lists counters, each dispatch once a counter; give the "
            "..._kernel_trace.csv of `rocprofv3 --kernel-trace --output-format csv`."
        )
    if table.position(*_START) is None or table.position(*_END) is None:
        raise InvalidTraceError(
            f"{table.name} names dispatches but not when they ran; give the table with "
            "Start_Timestamp and End_Timestamp (timestamps.csv, ..._kernel_trace.csv)."
        )


def _add_rows(builder: TraceBuilder, table: Table, agents: AgentTable) -> set[str]:
    """Add the dispatches and return the devices they name, as written."""
    kernel, start, end = (table.required(*names) for names in (_KERNEL, _START, _END))
    device, stream = table.position(*_DEVICE), table.position(*_STREAM)
    operation = table.position(*_OPERATION)
    seen: set[str] = set()
    for row in table.rows:
        name, start_ns = row[kernel], table.whole(row, start)
        if not name:
            name = row[operation] if operation is not None else "a kernel without a name"
        written = "" if device is None else row[device]
        seen.add(written)
        builder.add_kernel(
            name,
            start_ns=start_ns,
            duration_ns=duration_ns(table.name, name, start_ns, table.whole(row, end)),
            device=agents.index(written),
            stream=_small(row[stream]) if stream is not None else UNKNOWN,
            kind=kernel_kind(name),
        )
    return seen


def _small(text: str) -> int:
    """Return the number of a queue; a handle is no number to show."""
    return int(text) if text.isdigit() and len(text) < 10 else UNKNOWN


def _note_counters(builder: TraceBuilder, table: Table) -> None:
    counters = [name for name in table.header if fold(name) not in _NO_COUNTERS]
    if counters:
        builder.notes.append(
            f"Counters were collected too ({counters[0]} and {len(counters) - 1} more columns). "
            "Kernels run one at a time and slower meanwhile; times are right where they are of a "
            "run without, as those of rocprofiler-compute are."
        )


def _is_copies(columns: frozenset[str]) -> bool:
    return {"direction", "starttimestamp", "endtimestamp"} <= columns


def _add_copies(
    builder: TraceBuilder, path: Path, limits: TraceLimits, agents: AgentTable, devices: set[str]
) -> None:
    """Add the copies of rocprofv3's table beside the one of its kernels.

    What is copied to the host counts for the device that it comes from.
    """
    beside = path.with_name(path.name.replace("kernel_trace.csv", "memory_copy_trace.csv"))
    if beside == path or not beside.is_file():
        return
    table = open_table(beside, limits, _is_copies)
    direction, start, end = (
        table.required(name) for name in ("Direction", "Start_Timestamp", "End_Timestamp")
    )
    ends = [table.position(f"{end}_Agent_Id") for end in ("Destination", "Source")]
    for row in table.rows:
        written = [row[end] for end in ends if end is not None]
        device = next((one for one in written if one in devices), written[0] if written else "")
        start_ns = table.whole(row, start)
        builder.add_kernel(
            row[direction],
            start_ns=start_ns,
            duration_ns=duration_ns(table.name, row[direction], start_ns, table.whole(row, end)),
            device=agents.index(device),
            kind=KernelKind.COPY,
        )

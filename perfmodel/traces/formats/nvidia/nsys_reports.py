"""Reports of ``nsys stats --format csv``: a timeline of the GPU, or sums over kernels and copies.

Columns bear their unit in the name, which options of nsys change. Sizes are read where they are
bytes; megabytes are rounded to three places.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder, duration_ns
from perfmodel.traces.formats.tables import (
    SUMS_NOTE,
    Table,
    fold,
    header_of,
    read_tables,
    refuse_rounded,
    ungrouped,
)
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import LATEST_NS, TraceLimits
from perfmodel.traces.trace import UNKNOWN, Trace
from perfmodel.traces.traced_devices import traced_device

NAME = "nsys-stats"

_NS = {"ns": 1, "nsec": 1, "us": 10**3, "usec": 10**3, "μs": 10**3, "µs": 10**3,
       "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9}  # fmt: skip
_UNIT = re.compile(r"^(.*?)\s*\(([^)]*)\)$")
#: ``"NVIDIA A100-SXM4-80GB (0)"``.
_DEVICE = re.compile(r"^(.*?)\s*\((\d{1,4})\)$")
_KERNELS, _COPIES = frozenset({"kernels"}), frozenset({"copies"})
_GIVE = "give `nsys stats --report cuda_gpu_trace --format csv` or cuda_gpu_kern_sum"
_SIZES = f"sums sizes of copies and no times; {_GIVE}"
#: Columns, units apart, of reports that tell no times of the device.
_REFUSED = (
    ({"process", "thread", "eventtype", "timestamp"},
     f"holds calls on the host, as pipit reshaped them; {_GIVE}"),
    ({"start", "duration", "corrid", "result"}, f"lists calls on the host; {_GIVE}"),
    ({"numcalls", "totaltime"}, f"sums calls on the host; {_GIVE}"),
    ({"nvtxrange", "kernelname"},
     f"sums each kernel once for every range around it, so that they add up to too much; {_GIVE}"),
    ({"range", "totaltime"}, f"sums ranges of NVTX on the host; {_GIVE}"),
    ({"range", "totalprojtime"}, f"sums ranges of NVTX and no kernels; {_GIVE}"),
    ({"projectedstart", "rangeid"}, f"lists ranges of NVTX and no kernels; {_GIVE}"),
    ({"start", "end", "rangeid", "name"}, f"lists ranges of NVTX on the host; {_GIVE}"),
    ({"source", "name", "totaltime"}, f"sums calls of MPI on the host; {_GIVE}"),
    ({"name", "count", "totaltime"}, f"sums regions on the host; {_GIVE}"),
    ({"total", "operation", "count"}, _SIZES),
    ({"total", "operation", "operations"}, _SIZES),
)  # fmt: skip
#: Categories of rows that are no work of a device.
_HOST = "CUDA_API"


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a report of nsys, read or refused."""
    return header_of(head, lambda columns: _report(columns) is not None) is not None


def report_of(header: tuple[str, ...]) -> Report | None:
    """Return which report has a header, read or refused; None for any other table."""
    return _report(frozenset(map(fold, header)))


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read a report; several in one file where they do not tell the same.

    Raises
    ------
    InvalidTraceError
        The report tells nothing of the GPU, or a number is none.
    """
    tables = read_tables(path, limits, lambda columns: _report(columns) is not None)
    return trace_of(path.name, tables, TraceBuilder(NAME, limits))


def trace_of(file: str, tables: Iterable[Table], builder: TraceBuilder) -> Trace:
    """Return what the reports of one run tell of the device.

    Raises
    ------
    InvalidTraceError
        They tell nothing of it, or a number is none.
    """
    devices: dict[str, int] = {}
    taken: frozenset[str] = frozenset()
    refused = ""
    for table in tables:
        report = report_of(table.header)
        if report is None:
            continue
        refused = refused or report.refused
        if report.refused or report.tells & taken:
            builder.notes.append(
                f"A table ({', '.join(table.header[:4])}, ...) is left out: it tells nothing of "
                "the device, or what an earlier one tells."
            )
            deque(table.rows, maxlen=0)
            continue
        taken |= report.tells
        if report.add in (_sums, _execution_sums) and SUMS_NOTE not in builder.notes:
            builder.notes.append(SUMS_NOTE)
        report.add(builder, table, devices)
    if refused and not taken:
        raise InvalidTraceError(f"{file} {refused}.")
    for written, index in devices.items():
        found = _DEVICE.match(written)
        builder.devices.append(traced_device(index, found[1] if found else written))
    return builder.build()


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One kind of report.

    Parameters
    ----------
    tells : frozenset of str
        What of the device it tells; two tables that tell the same are not added up.
    refused : str
        Why it is not read; empty where it is.
    """

    tells: frozenset[str]
    add: Callable[[TraceBuilder, Table, dict[str, int]], None]
    refused: str = ""


def _report(columns: frozenset[str]) -> Report | None:
    """Return which report has these (folded) columns, units and all."""
    bare = frozenset(_UNIT.sub(r"\1", name).strip() for name in columns)
    for wanted, reason in _REFUSED:
        if wanted <= bare:
            return Report(tells=frozenset(), add=_sums, refused=reason)
    return next((report for wanted, report in _READ if wanted <= bare), None)


def _timeline(builder: TraceBuilder, table: Table, devices: dict[str, int]) -> None:
    """Add the rows of ``cuda_gpu_trace``."""
    start, duration = _Time.named(table, "Start"), _Time.named(table, "Duration")
    name, device = table.required("Name"), table.position("Device")
    stream = table.position("Strm")
    size = table.position("Bytes (B)", "Bytes (byte)")
    for row in table.rows:
        builder.add_kernel(
            row[name],
            start_ns=start.of(row),
            duration_ns=duration.of(row),
            device=_index(row[device], devices) if device is not None else UNKNOWN,
            stream=table.whole(row, stream) if stream is not None and row[stream] else UNKNOWN,
            kind=kernel_kind(row[name]),
            size_bytes=table.whole(row, size) if size is not None and row[size] else UNKNOWN,
        )


def _launches(builder: TraceBuilder, table: Table, devices: dict[str, int]) -> None:
    """Add the rows of ``cuda_kern_exec_trace``: kernels with the call that launched each."""
    times = {
        what: _Time.named(table, what)
        for what in ("Kernel Start", "Kernel Dur", "API Start", "API Dur")
    }
    name, device = table.required("Kernel Name"), table.position("DevId")
    for row in table.rows:
        builder.add_kernel(
            row[name],
            start_ns=times["Kernel Start"].of(row),
            duration_ns=times["Kernel Dur"].of(row),
            device=table.whole(row, device) if device is not None else UNKNOWN,
            kind=kernel_kind(row[name]),
            launch_start_ns=times["API Start"].of(row),
            launch_duration_ns=times["API Dur"].of(row),
        )


def _pairs(builder: TraceBuilder, table: Table, devices: dict[str, int]) -> None:
    """Add the rows of a timeline that the package pipit made pairs of Enter and Leave of."""
    begin = _Time.named(table, "Timestamp")
    end = replace(begin, position=table.required("_matching_timestamp"))
    name, event = table.required("Name"), table.required("Event Type")
    stream, size = table.position("streamId"), table.position("bytes")
    for row in table.rows:
        if row[event] != "Enter":
            continue
        start_ns, end_ns = begin.of(row), end.of(row)
        builder.add_kernel(
            row[name],
            start_ns=start_ns,
            duration_ns=duration_ns(table.name, row[name], start_ns, end_ns),
            stream=table.whole(row, stream) if stream is not None and row[stream] else UNKNOWN,
            kind=kernel_kind(row[name]),
            size_bytes=table.whole(row, size) if size is not None and row[size] else UNKNOWN,
        )


def _sums(builder: TraceBuilder, table: Table, devices: dict[str, int]) -> None:
    """Add the rows of ``cuda_gpu_kern_sum``, ``cuda_gpu_mem_time_sum`` or ``cuda_gpu_sum``."""
    total = _Time.named(table, "Total Time")
    calls = table.required("Instances", "Count", "Operations")
    name, category = table.required("Name", "Operation"), table.position("Category")
    for row in table.rows:
        if category is not None and row[category] == _HOST:
            continue
        builder.add_kernel(
            row[name],
            duration_ns=total.of(row),
            calls=table.whole(row, calls),
            kind=kernel_kind(row[name]),
        )


def _execution_sums(builder: TraceBuilder, table: Table, devices: dict[str, int]) -> None:
    """Add the rows of ``cuda_kern_exec_sum``: means over the calls of each kernel."""
    mean, calls = _Time.named(table, "KAvg"), table.required("Count")
    name, device = table.required("Kernel Name"), table.required("DevId")
    for row in table.rows:
        count = table.whole(row, calls)
        builder.add_kernel(
            row[name],
            duration_ns=mean.of(row) * count,
            calls=count,
            device=table.whole(row, device),
            kind=kernel_kind(row[name]),
        )


#: Columns, units apart, of reports that are read. Older versions call counts of copies operations.
_READ = (
    ({"start", "duration", "corrid", "name"}, Report(tells=_KERNELS | _COPIES, add=_timeline)),
    (
        {"eventtype", "timestamp", "matchingtimestamp", "streamid"},
        Report(tells=_KERNELS | _COPIES, add=_pairs),
    ),
    ({"kernelstart", "kerneldur", "kernelname"}, Report(tells=_KERNELS, add=_launches)),
    ({"kernelname", "kavg", "count"}, Report(tells=_KERNELS, add=_execution_sums)),
    ({"totaltime", "instances", "category"}, Report(tells=_KERNELS | _COPIES, add=_sums)),
    ({"totaltime", "instances", "name"}, Report(tells=_KERNELS, add=_sums)),
    ({"totaltime", "count", "operation"}, Report(tells=_COPIES, add=_sums)),
    ({"totaltime", "operations", "operation"}, Report(tells=_COPIES, add=_sums)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Time:
    """A column of times and its unit."""

    file: str
    column: str
    position: int
    unit_ns: int

    @classmethod
    def named(cls, table: Table, name: str) -> _Time:
        for position, column in enumerate(table.header):
            found = _UNIT.match(column)
            # Versions before 2021 left the unit out; it was nanoseconds.
            unit = found[2] if found else "ns"
            if fold(found[1] if found else column) == fold(name):
                if unit not in _NS:
                    raise InvalidTraceError(
                        f"{table.name} has its column {column!r} in an unknown unit; known are "
                        f"{', '.join(_NS)}. Export it with `--timeunit nsec`."
                    )
                return cls(file=table.name, column=column, position=position, unit_ns=_NS[unit])
        raise InvalidTraceError(
            f"{table.name} has no column {name!r} among {', '.join(table.header)}."
        )

    def of(self, row: list[str]) -> int:
        text = ungrouped(row[self.position])
        refuse_rounded(self.file, self.column, text)
        try:
            value = Decimal(text) * self.unit_ns
            if 0 <= value < LATEST_NS:
                return round(value)
        except (ArithmeticError, ValueError):
            pass
        raise InvalidTraceError(
            f"{self.file} has {text[:60]!r} in column {self.column!r}; expected a time >= 0."
        )


def _index(written: str, devices: dict[str, int]) -> int:
    """Return the number of a device; one without a number in its name is counted."""
    if written not in devices:
        found = _DEVICE.match(written)
        devices[written] = int(found[2]) if found else len(devices)
    return devices[written]

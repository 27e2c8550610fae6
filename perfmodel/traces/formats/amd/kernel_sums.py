"""Sums over the calls of each kernel: ``results.stats.csv`` of rocprof, ``kernel_stats.csv``."""

from __future__ import annotations

import re
from pathlib import Path

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.tables import SUMS_NOTE, header_of, open_table
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import Trace

NAME = "rocprof-stats"
#: Calls on the host, and sums over all of a domain, have the same columns.
_HOST = re.compile(r"^(?:hip|hsa_|roctx|rccl|__hip)[A-Za-z_]|^(?:HIP|HSA|MARKER|KERNEL|SCRATCH)_")


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a table of sums."""
    return header_of(head, _is_sums) is not None


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read sums over the calls of each kernel.

    Raises
    ------
    InvalidTraceError
        The sums are of calls on the host, or of whole domains.
    """
    table = open_table(path, limits, _is_sums)
    name, calls, total = (table.required(column) for column in ("Name", "Calls", "TotalDurationNs"))
    builder = TraceBuilder(NAME, limits)
    for row in table.rows:
        if _HOST.match(row[name]):
            raise InvalidTraceError(
                f"{path.name} sums calls on the host, or all of a domain ({row[name]!r}), not "
                "single kernels; give ..._kernel_stats.csv or ..._kernel_trace.csv."
            )
        builder.add_kernel(
            row[name],
            duration_ns=table.whole(row, total),
            calls=table.whole(row, calls),
            kind=kernel_kind(row[name]),
        )
    builder.notes.append(SUMS_NOTE)
    return builder.build()


def _is_sums(columns: frozenset[str]) -> bool:
    return {"name", "calls", "totaldurationns"} <= columns

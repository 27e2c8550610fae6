"""Tables of AMD's profilers that hold no kernels, and are refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.tables import header_of
from perfmodel.traces.limits import TraceLimits

NAME = "rocprof-other"

#: Columns that tell a table, and what it is.
_TABLES = (
    ({"gpuarch", "gpumodel", "rocmversion"},
     "describes the machine; give a table of dispatches that lies beside it, such as "
     "timestamps.csv or pmc_perf.csv"),
    ({"hbmbw", "fp32flops"},
     "holds peaks that rocprofiler-compute measured, and no kernels; give timestamps.csv or "
     "pmc_perf.csv"),
    ({"agenttype", "productname", "nodeid"},
     "describes the devices; give the ..._kernel_trace.csv that lies beside it"),
    ({"domain", "function", "starttimestamp"},
     "lists calls on the host; give the ..._kernel_trace.csv of the same run"),
    ({"direction", "starttimestamp", "endtimestamp"},
     "lists copies alone; give the ..._kernel_trace.csv of the same run, both are read"),
    ({"kind", "allocationsize"},
     "lists allocations; give the ..._kernel_trace.csv of the same run"),
    ({"sampletimestamp", "instruction"},
     "samples instructions, without times of kernels; record `rocprofv3 --kernel-trace`"),
    ({"kind", "allocflags"}, "lists scratch memory; give the ..._kernel_trace.csv of the same run"),
)  # fmt: skip


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is one of these tables."""
    return _reason(head) is not None


def read(path: Path, limits: TraceLimits) -> NoReturn:
    """Refuse the table.

    Raises
    ------
    InvalidTraceError
        Always, with what it is and what to give instead.
    """
    from perfmodel.traces.formats.unpacking import read_head

    raise InvalidTraceError(f"{path.name} {_reason(read_head(path, limits))}.")


def _reason(head: bytes) -> str | None:
    for columns, reason in _TABLES:
        if header_of(head, columns.issubset) is not None:
            return reason
    return None

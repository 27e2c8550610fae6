"""Chrome traces of rocprof's first generation: ``rocprof --hip-trace`` and its ``results.json``.

A process of the trace stands for each GPU (``2 GPU0``), one for copies, others for calls on the
host. Times in microseconds are rounded; the arguments keep them in nanoseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder, duration_ns
from perfmodel.traces.formats.json_events import JsonEvents
from perfmodel.traces.formats.tables import whole
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace
from perfmodel.traces.traced_devices import traced_device

NAME = "rocprof-json"
_BEGINNING = re.compile(rb'\s*\{\s*"traceEvents"\s*:\s*\[')
_GPU = re.compile(r"\bGPU(\d{1,4})$")
_COPY = re.compile(r"\bCOPY$")


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is such a trace."""
    return _BEGINNING.match(head) is not None and b'"BeginNs"' in head


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read kernels and copies.

    Raises
    ------
    InvalidTraceError
        It is cut or damaged, or nothing in it ran on a GPU.
    """
    rows = _Rows(TraceBuilder(NAME, limits), path.name)
    events = JsonEvents(
        unpacked(path, limits), key="traceEvents", name=path.name, limits=limits.small_events
    )
    for batch in events.batches():
        for event in batch:
            rows.add(event)
    if events.cut:
        raise InvalidTraceError(f"{path.name} is cut: {events.cut}. Copy it again.")
    rows.builder.notes += events.notes()
    return rows.build()


class _Rows:
    """Events as rows of a trace."""

    def __init__(self, builder: TraceBuilder, file: str) -> None:
        self.builder = builder
        self.file = file
        #: What the processes of the trace stand for.
        self._labels: dict[str, str] = {}
        self._gpus: set[int] = set()

    def add(self, event: Any) -> None:
        """Take in an event.

        Raises
        ------
        InvalidTraceError
            It is none, or its times are none.
        """
        facts = event.get("args", {}) if isinstance(event, dict) else None
        if not isinstance(facts, dict):
            raise InvalidTraceError(
                f"{self.file} lists {str(event)[:60]!r} among its events, which is none of rocprof."
            )
        process = str(event.get("pid"))
        if event.get("name") == "process_name" and event.get("ph") == "M":
            self._labels[process] = str(facts.get("name"))
        elif event.get("ph") == "X":
            label = self._labels.get(process, "")
            gpu = _GPU.search(label)
            if gpu is not None:
                self._gpus.add(int(gpu[1]))
                self._add(event, facts, int(gpu[1]))
            elif _COPY.search(label):
                self._add(event, facts, UNKNOWN)

    def build(self) -> Trace:
        """Return the trace.

        Raises
        ------
        InvalidTraceError
            Nothing in it ran on a GPU.
        """
        if not self.builder.kernel_count:
            raise InvalidTraceError(
                f"{self.file} lists calls on the host and nothing that a GPU did; give "
                "results.csv, or record with `rocprof --hip-trace --timestamp on`."
            )
        self.builder.devices += [traced_device(index, "") for index in sorted(self._gpus)]
        return self.builder.build()

    def _add(self, event: Mapping[str, Any], facts: Mapping[str, Any], device: int) -> None:
        name = str(event.get("name"))
        start_ns, end_ns = (
            whole(self.file, key, str(facts.get(key))) for key in ("BeginNs", "EndNs")
        )
        queue = str(facts.get("stream-id", facts.get("queue-id", "")))
        self.builder.add_kernel(
            name,
            start_ns=start_ns,
            duration_ns=duration_ns(self.file, name, start_ns, end_ns),
            device=device,
            stream=int(queue) if queue.isdecimal() and len(queue) < 10 else UNKNOWN,
            kind=KernelKind.COPY if device == UNKNOWN else kernel_kind(name),
        )

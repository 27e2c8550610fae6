"""The SQLite database of rocprofv3 (rocpd), which ROCm 7 writes unless told otherwise.

Each process has tables of its own, whose names end alike: ``rocpd_kernel_dispatch_<guid>``. A call
on the host and what it put on a device share the stack of their events. Timestamps are nanoseconds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder, duration_ns
from perfmodel.traces.formats.launch_calls import LaunchCalls
from perfmodel.traces.formats.read_only_database import MAGIC, ReadOnlyDatabase
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace
from perfmodel.traces.traced_devices import traced_device

NAME = "rocpd"
_DISPATCHES = "rocpd_kernel_dispatch"
_GIVE = "give the CSV: `rocpd convert -i FILE.db --output-format csv`"
_WORK = ("start", "end", "event_id", "stream_id", "queue_id")
_AGENT = ("id", "type", "type_index", "name", "product_name", "extdata")
#: Stacks count from one in each process.
_STACK_BITS = 40
_CALLS_AT_ONCE = 50_000
_NAMELESS = "without a name"


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a database of rocprofv3, or of its forerunner."""
    return head.startswith(MAGIC) and b"rocpd_string" in head


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read kernels, copies and what launched them, of all processes.

    Raises
    ------
    InvalidTraceError
        It is damaged, of another version, or lists nothing that a GPU did.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidTraceError(f"{path.name} is a packed database; unpack it first.")
    with ReadOnlyDatabase(path) as database:
        ends = sorted(
            table.removeprefix(_DISPATCHES)
            for table in database.tables
            if table.startswith(_DISPATCHES)
        )
        if not ends or not {"start", "end"} <= database.columns(_DISPATCHES + ends[0]):
            raise InvalidTraceError(
                f"{database.name} is a database of another version of rocpd than 3; {_GIVE}."
            )
        builder = TraceBuilder(NAME, limits)
        launches = LaunchCalls(builder)
        processes = [
            _Process(database, end, launches, builder, number << _STACK_BITS)
            for number, end in enumerate(ends)
        ]
        for process in processes:
            process.work()
        if not builder.kernel_count:
            raise InvalidTraceError(
                f"{database.name} lists nothing that a GPU did; record with `rocprofv3 "
                "--kernel-trace --memory-copy-trace --hip-trace`."
            )
        for process in processes:
            process.calls()
        return launches.build()


class _Process:
    """The tables of one process."""

    def __init__(
        self,
        database: ReadOnlyDatabase,
        end: str,
        launches: LaunchCalls,
        builder: TraceBuilder,
        first_stack: int,
    ) -> None:
        self.database = database
        self.launches = launches
        self.builder = builder
        self._end = end
        self._texts: dict[int, str] = {}
        self._first_stack = first_stack
        self._events, self._stacks = self._stack_of_events()

    def work(self) -> None:
        """Add agents, kernels and copies."""
        index: dict[int, int] = dict(self._agents())
        symbols = {
            kernel: shown or name or ""
            for kernel, shown, name in self._rows(
                "info_kernel_symbol", "id", "display_name", "kernel_name"
            )
        }
        for row in self._rows("kernel_dispatch", *_WORK, "agent_id", "kernel_id"):
            *work, agent, kernel = row
            name = str(symbols.get(kernel) or f"kernel {kernel}, whose symbol is not in the file")
            self._add(work, name, index.get(agent, UNKNOWN), kernel_kind(name), UNKNOWN)
        columns = ("src_agent_id", "dst_agent_id", "name_id", "size")
        for row in self._rows("memory_copy", *_WORK, *columns):
            *work, source, target, name_id, size = row
            device = next((index[one] for one in (target, source) if one in index), UNKNOWN)
            size_bytes = UNKNOWN if size is None else self._whole(size, "size")
            self._add(work, self._text(name_id), device, KernelKind.COPY, size_bytes)

    def calls(self) -> None:
        """Add the calls on the host that launched."""
        columns = ("start", "end", "tid", "name_id", "event_id")
        for number, row in enumerate(self._rows("region", *columns), start=1):
            start, end, thread, name_id, event = row
            name = self._text(name_id)
            start_ns = self._whole(start, "start")
            took_ns = duration_ns(self.database.name, name, start_ns, self._whole(end, "end"))
            self.launches.add(
                self._stack(event),
                start_ns,
                took_ns,
                thread=thread % 2**31 if type(thread) is int else 0,
                graph="GraphLaunch" in name,
            )
            if number % _CALLS_AT_ONCE == 0:
                self.launches.enter()

    def _stack_of_events(self) -> tuple[array[int], array[int]]:
        """Return the ids of events in rising order, and the stack of each."""
        events, stacks = array("q"), array("q")
        for event, stack in self._rows("event", "id", "stack_id"):
            if type(event) is int and type(stack) is int and 0 < stack < 1 << _STACK_BITS:
                events.append(event)
                stacks.append(stack)
        # An index on stacks may have been read instead of the table.
        order = np.argsort(np.array(events, dtype=np.int64), kind="stable")
        events, stacks = (
            array("q", np.array(column, dtype=np.int64)[order].tobytes())
            for column in (events, stacks)
        )
        return events, stacks

    def _agents(self) -> list[tuple[Any, int]]:
        """Add the GPUs and return their numbers by the keys of their rows."""
        found: list[tuple[Any, int]] = []
        for key, kind, position, name, product, more in self._rows("info_agent", *_AGENT):
            if kind != "GPU":
                continue
            index = position if type(position) is int and position >= 0 else len(found)
            found.append((key, index))
            cores = _object(more).get("cu_count")
            if all(one.index != index for one in self.builder.devices):
                device = traced_device(
                    index,
                    str(product or ""),
                    multiprocessors=cores if type(cores) is int and cores > 0 else None,
                    architecture=str(name or ""),
                )
                self.builder.devices.append(device)
        return found

    def _add(
        self, work: list[Any], name: str, device: int, kind: KernelKind, size_bytes: int
    ) -> None:
        start, end, event, stream, queue = work
        start_ns = self._whole(start, "start")
        lane = stream if type(stream) is int else queue
        self.builder.add_kernel(
            name,
            start_ns=start_ns,
            duration_ns=duration_ns(self.database.name, name, start_ns, self._whole(end, "end")),
            device=device,
            stream=lane if type(lane) is int and 0 <= lane < 2**31 else UNKNOWN,
            kind=kind,
            size_bytes=size_bytes,
        )
        self.launches.of_kernels.append(self._stack(event))

    def _stack(self, event: Any) -> int:
        """Return a number that a call and what it launched share; -1 for none."""
        if type(event) is not int:
            return UNKNOWN
        place = bisect_left(self._events, event)
        if place == len(self._events) or self._events[place] != event:
            return UNKNOWN
        return self._first_stack + self._stacks[place]

    def _text(self, number: Any) -> str:
        if type(number) is not int:
            return _NAMELESS
        if number not in self._texts:
            found = self.database.value(f"rocpd_string{self._end}", "string", "id", number)
            self._texts[number] = _NAMELESS if found is None else str(found)
        return self._texts[number]

    def _whole(self, value: Any, column: str) -> int:
        if type(value) is not int or value < 0:
            raise InvalidTraceError(
                f"{self.database.name} has {str(value)[:60]!r} in a column {column!r}; expected a "
                "whole number >= 0. It is damaged, or no database of rocprofv3."
            )
        return value

    def _rows(self, table: str, *columns: str) -> Any:
        return self.database.rows(f"rocpd_{table}{self._end}", columns)


def _object(text: Any) -> Mapping[str, Any]:
    try:
        found = orjson.loads(text) if isinstance(text, str) else {}
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}

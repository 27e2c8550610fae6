"""The SQLite database of rocprofv3 (rocpd), which ROCm 7 writes unless told otherwise.

Each process has tables of its own, whose names end alike: ``rocpd_kernel_dispatch_<guid>``. A call
on the host and what it put on a device share the stack of their events. Timestamps are nanoseconds.
Since version 4 of the tables rows name a track, which knows thread, agent, queue and stream;
version 4.0 keeps timestamps in a table of their own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder, duration_ns
from perfmodel.traces.formats.launch_calls import LaunchCalls
from perfmodel.traces.formats.read_only_database import MAGIC, ReadOnlyDatabase
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import LATEST_NS, TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace
from perfmodel.traces.traced_devices import traced_device

NAME = "rocpd"
_DISPATCHES = "rocpd_kernel_dispatch"
_GIVE = "give the CSV: `rocpd convert -i FILE.db --output-format csv`"
_TRACK = ("tid", "agent_id", "stream_id", "queue_id")
_ROW = ("start", "end", "start_id", "end_id", "event_id", "track_id")
_AGENT = ("id", "type", "type_index", "name", "product_name", "extdata")
#: Stacks count from one in each process.
_STACK_BITS = 40
_CALLS_AT_ONCE = 50_000
_NOWHERE = (None,) * len(_TRACK)
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
        columns = database.columns(_DISPATCHES + ends[0]) if ends else frozenset()
        if not ({"start", "end"} <= columns or {"start_id", "end_id"} <= columns):
            raise InvalidTraceError(
                f"{database.name} is a database of another version of rocpd than 3 and 4; {_GIVE}."
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


class _Numbers:
    """A column of positive numbers by the ids of its rows, which may come in any order."""

    def __init__(self, rows: Iterable[tuple[Any, ...]], *, below: int) -> None:
        ids, values = array("q"), array("q")
        for key, value in rows:
            if type(key) is int and type(value) is int and 0 < value < below:
                ids.append(key)
                values.append(value)
        # An index on the values may have been read instead of the table.
        order = np.argsort(np.array(ids, dtype=np.int64), kind="stable")
        self._ids, self._values = (
            array("q", np.array(column, dtype=np.int64)[order].tobytes())
            for column in (ids, values)
        )

    def get(self, key: Any) -> int | None:
        """Return the number of a row, None where there is none."""
        if type(key) is not int:
            return None
        place = bisect_left(self._ids, key)
        there = place < len(self._ids) and self._ids[place] == key
        return self._values[place] if there else None


class _Placed(NamedTuple):
    """When and where something was; ``stack`` is what a call and what it launched share."""

    start_ns: int
    end_ns: int
    stack: int
    thread: Any
    agent: Any
    lane: Any


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
        stacks, times = (
            self._rows("event", "id", "stack_id"),
            self._rows("timestamp", "id", "value"),
        )
        self._stacks = _Numbers(stacks, below=1 << _STACK_BITS)
        self._times = _Numbers(times, below=LATEST_NS)
        self._tracks = {track: where for track, *where in self._rows("track", "id", *_TRACK)}

    def work(self) -> None:
        """Add agents, kernels and copies."""
        index: dict[int, int] = dict(self._agents())
        symbols = {
            kernel: shown or name or ""
            for kernel, shown, name in self._rows(
                "info_kernel_symbol", "id", "display_name", "kernel_name"
            )
        }
        for at, kernel in self._placed("kernel_dispatch", "kernel_id"):
            name = str(symbols.get(kernel) or f"kernel {kernel}, whose symbol is not in the file")
            self._add(at, name, index.get(at.agent, UNKNOWN), kernel_kind(name), UNKNOWN)
        columns = ("src_agent_id", "dst_agent_id", "name_id", "size")
        for at, source, target, name_id, size in self._placed("memory_copy", *columns):
            device = next((index[one] for one in (target, source) if one in index), UNKNOWN)
            size_bytes = UNKNOWN if size is None else self._whole(size, "size")
            self._add(at, self._text(name_id), device, KernelKind.COPY, size_bytes)

    def calls(self) -> None:
        """Add the calls on the host that launched."""
        for number, (at, name_id) in enumerate(self._placed("region", "name_id"), start=1):
            name = self._text(name_id)
            self.launches.add(
                at.stack,
                at.start_ns,
                duration_ns(self.database.name, name, at.start_ns, at.end_ns),
                thread=at.thread % 2**31 if type(at.thread) is int else 0,
                graph="GraphLaunch" in name,
            )
            if number % _CALLS_AT_ONCE == 0:
                self.launches.enter()

    def _placed(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield when and where each row of a table was, and some columns of it."""
        tracked = "track_id" in self.database.columns(f"rocpd_{table}{self._end}")
        for row in self._rows(table, *_ROW, *_TRACK, *columns):
            start, end, start_id, end_id, event, track = row[: len(_ROW)]
            where = row[len(_ROW) : len(_ROW) + len(_TRACK)]
            thread, agent, stream, queue = self._tracks.get(track, _NOWHERE) if tracked else where
            stack = self._stacks.get(event)
            at = _Placed(
                start_ns=self._time(start, start_id, "start"),
                end_ns=self._time(end, end_id, "end"),
                stack=UNKNOWN if stack is None else self._first_stack + stack,
                thread=thread,
                agent=agent,
                lane=stream if type(stream) is int else queue,
            )
            yield at, *row[len(_ROW) + len(_TRACK) :]

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

    def _add(self, at: _Placed, name: str, device: int, kind: KernelKind, size_bytes: int) -> None:
        self.builder.add_kernel(
            name,
            start_ns=at.start_ns,
            duration_ns=duration_ns(self.database.name, name, at.start_ns, at.end_ns),
            device=device,
            stream=at.lane if type(at.lane) is int and 0 <= at.lane < 2**31 else UNKNOWN,
            kind=kind,
            size_bytes=size_bytes,
        )
        self.launches.of_kernels.append(at.stack)

    def _text(self, number: Any) -> str:
        if type(number) is not int:
            return _NAMELESS
        if number not in self._texts:
            found = self.database.value(f"rocpd_string{self._end}", "string", "id", number)
            self._texts[number] = _NAMELESS if found is None else str(found)
        return self._texts[number]

    def _time(self, written: Any, key: Any, column: str) -> int:
        return self._whole(written if key is None else self._times.get(key), column)

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

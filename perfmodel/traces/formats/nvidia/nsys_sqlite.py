"""SQLite export of Nsight Systems: ``nsys export --type sqlite``.

Tables and columns are those of NVIDIA's "SQLite Export Schema Reference" (Nsight Systems
documentation, exporter). Tables are made lazily, columns come and go between versions: what is
absent is untold. Times are nanoseconds. Ranges of NVTX are read as calls on the host; those of
``torch.autograd.profiler.emit_nvtx`` carry operators with sequence numbers and shapes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.argument_table import ArgumentTable
from perfmodel.traces.formats.launch_calls import LaunchCalls
from perfmodel.traces.formats.nvidia.nvtx_ranges import nvtx_operator
from perfmodel.traces.formats.read_only_database import MAGIC, ReadOnlyDatabase
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import LATEST_NS, TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace
from perfmodel.traces.traced_devices import traced_device

NAME = "nsys-sqlite"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSETS = "CUPTI_ACTIVITY_KIND_MEMSET"
_CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
_WORK = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
#: Types of NVTX ranges that are opened and closed on one thread.
_PUSH_POP = (59, 33)
#: Serialised ids: hardware, virtual machine, process and thread, the last two 24 bits each.
_ID_BITS = 24
_ID_MASK = (1 << _ID_BITS) - 1
_CALLS_AT_ONCE = 50_000
#: ``CUpti_ActivityMemcpyKind``, for exports that do not spell it out.
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a SQLite database; which one it is only its tables tell."""
    return head.startswith(MAGIC)


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read kernels, copies, what launched them, and ranges of NVTX.

    Raises
    ------
    InvalidTraceError
        It is of another program, damaged, or lists nothing that a GPU did.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidTraceError(f"{path.name} is a packed database; unpack it first.")
    with ReadOnlyDatabase(path) as database:
        _refuse_others(database)
        export = _Export(database, TraceBuilder(NAME, limits))
        export.kernels()
        export.whole_graphs()
        export.copies()
        export.memsets()
        if not export.builder.kernel_count:
            # Tables are there and empty where they were not exported lazily.
            raise InvalidTraceError(f"{database.name} {_NO_WORK}.")
        export.calls()
        export.ranges()
        export.devices()
        return export.launches.build()


_NO_WORK = (
    f"is a SQLite database without work of a GPU ({_KERNELS} and the like): record with `nsys "
    "profile --trace cuda,nvtx`"
)
#: Tables that tell databases of other profilers, and what to give instead.
_OTHERS = (
    ("StringTable", "is a database of nvprof, whose tables are others: record with Nsight Systems"),
    ("OPS", "is a database of rocprof, which keeps the same in a table: give its results.csv"),
)


def _refuse_others(database: ReadOnlyDatabase) -> None:
    for table, reason in _OTHERS:
        if table in database.tables:
            raise InvalidTraceError(f"{database.name} {reason}.")
    if not database.tables & {_KERNELS, _GRAPHS, _COPIES, _MEMSETS}:
        raise InvalidTraceError(f"{database.name} {_NO_WORK}.")


class _Export:
    """What is read of one database."""

    def __init__(self, database: ReadOnlyDatabase, builder: TraceBuilder) -> None:
        self.database = database
        self.builder = builder
        self.launches = LaunchCalls(builder)
        self._texts: dict[int, str] = {}
        self._processes: dict[int, int] = {}
        #: GPUs by process and the number that CUDA gives them there; any process is None.
        self._gpus: dict[tuple[int | None, Any], int] = {}
        for gpu, number, process in database.rows("TARGET_INFO_CUDA_DEVICE", _CUDA_NUMBERS):
            if isinstance(gpu, int) and 0 <= gpu < 2**31:
                self._gpus[process, number] = gpu
                self._gpus.setdefault((None, number), gpu)

    def kernels(self) -> None:
        """Add kernels; the long name where it is kept."""
        named = self.database.columns(_KERNELS)
        name = next((n for n in ("demangledName", "shortName", "name") if n in named), "name")
        for row in self.database.rows(_KERNELS, (*_WORK, "graphNodeId", name)):
            text = self._text(row[-1], "a kernel without a name")
            self._add(row, text, kernel_kind(text), UNKNOWN, graph=bool(row[-2]))

    def whole_graphs(self) -> None:
        """Add CUDA graphs that were traced as one."""
        for row in self.database.rows(_GRAPHS, (*_WORK, "graphId")):
            self._add(row, f"CUDA graph {row[-1]}", KernelKind.COMPUTE, UNKNOWN, graph=True)

    def copies(self) -> None:
        """Add copies, named by what they copy from where to where."""
        labels = {
            kind: str(label)
            for kind, label in self.database.rows("ENUM_CUDA_MEMCPY_OPER", ("id", "label"))
        } or _COPY_KINDS
        for row in self.database.rows(_COPIES, (*_WORK, "bytes", "copyKind")):
            name = f"[CUDA memcpy {labels.get(row[-1], row[-1])}]"
            self._add(row, name, KernelKind.COPY, self._size(row[-2]))

    def memsets(self) -> None:
        """Add sets of memory."""
        for row in self.database.rows(_MEMSETS, (*_WORK, "bytes")):
            self._add(row, "[CUDA memset]", KernelKind.MEMSET, self._size(row[-1]))

    def calls(self) -> None:
        """Add the calls of the runtime that launched what a device ran."""
        columns = ("start", "end", "globalTid", "correlationId", "nameId")
        for number, row in enumerate(self.database.rows(_CALLS, columns), start=1):
            start, end, thread, correlation, name = row
            text = self._text(name, "a call of the runtime")
            start_ns, duration_ns = self._times(start, end, text)
            self.launches.add(
                self._correlation(correlation, thread),
                start_ns,
                duration_ns,
                thread=self._whole(thread or 0, "globalTid") & _ID_MASK,
                graph="GraphLaunch" in text,
            )
            if number % _CALLS_AT_ONCE == 0:
                self.launches.enter()

    def ranges(self) -> None:
        """Add ranges of NVTX that were opened and closed on one thread."""
        open_ended = 0
        table = ArgumentTable(self.builder)
        columns = ("start", "end", "globalTid", "eventType", "text", "textId")
        for start, end, thread, kind, text, text_id in self.database.rows("NVTX_EVENTS", columns):
            if kind is not None and kind not in _PUSH_POP:
                continue
            # Before 2021 no column was empty: what has no end has 0 or -1 there.
            if end is None or end in (0, -1):
                open_ended += 1
                continue
            told = text if isinstance(text, str) else self._text(text_id, "a range without a text")
            start_ns, duration_ns = self._times(start, end, told)
            number = self._whole(thread or 0, "globalTid") & _ID_MASK
            nvtx_operator(self.builder, table, told, start_ns, duration_ns, number)
        table.note()
        if open_ended:
            self.builder.notes.append(f"{open_ended} ranges of NVTX are never closed; left out.")

    def devices(self) -> None:
        """Describe the GPUs."""
        described = self.database.rows("TARGET_INFO_GPU", _GPU_FACTS)
        before_2021 = self.database.rows("TARGET_INFO_CUDA_GPU", _GPU_FACTS_BEFORE_2021)
        for row in (*described, *before_2021):
            gpu, name, memory, cores, major, minor = row
            capability = f"{major}.{minor}" if major is not None else ""
            self.builder.devices.append(
                traced_device(
                    gpu if isinstance(gpu, int) else len(self.builder.devices),
                    str(name or ""),
                    memory_bytes=memory if isinstance(memory, int) and memory > 0 else None,
                    multiprocessors=cores if isinstance(cores, int) and cores > 0 else None,
                    architecture=capability,
                )
            )

    def _add(
        self,
        row: tuple[Any, ...],
        name: str,
        kind: KernelKind,
        size_bytes: int,
        *,
        graph: bool = False,
    ) -> None:
        start, end, device, stream, correlation, process = row[: len(_WORK)]
        start_ns, duration_ns = self._times(start, end, name)
        self.builder.add_kernel(
            name,
            start_ns=start_ns,
            duration_ns=duration_ns,
            device=UNKNOWN if device is None else self._device(device, process),
            stream=UNKNOWN if stream is None else self._whole(stream, "streamId"),
            kind=kind,
            size_bytes=size_bytes,
            graph=graph,
        )
        self.launches.of_kernels.append(self._correlation(correlation, process))

    def _device(self, number: Any, serialised: Any) -> int:
        """Return the number of a GPU; CUDA counts those that a process may see."""
        device = self._whole(number, "deviceId")
        process = self._whole(serialised or 0, "globalPid") >> _ID_BITS & _ID_MASK
        return self._gpus.get((process, device), self._gpus.get((None, device), device))

    def _correlation(self, number: Any, serialised: Any) -> int:
        """Return a number that kernels and calls of one process share; -1 for none."""
        if not isinstance(number, int) or not 0 < number < 2**32:
            return UNKNOWN
        process = self._whole(serialised or 0, "globalPid") >> _ID_BITS
        return number | self._processes.setdefault(process, len(self._processes)) << 32

    def _text(self, number: Any, absent: str) -> str:
        if not isinstance(number, int):
            return number if isinstance(number, str) and number else absent
        if number not in self._texts:
            found = self.database.value("StringIds", "value", "id", number)
            self._texts[number] = str(found) if found is not None else absent
        return self._texts[number]

    def _times(self, start: Any, end: Any, name: str) -> tuple[int, int]:
        start_ns, end_ns = self._whole(start, "start"), self._whole(end, "end")
        if end_ns < start_ns or end_ns >= LATEST_NS:
            raise InvalidTraceError(
                f"{self.database.name}: {name[:200]!r} runs from {start_ns} to {end_ns} ns. The "
                "clock jumped while it was recorded, or the file is damaged: record it again."
            )
        return start_ns, end_ns - start_ns

    def _size(self, value: Any) -> int:
        return UNKNOWN if value is None else self._whole(value, "bytes")

    def _whole(self, value: Any, column: str) -> int:
        if type(value) is not int or value < 0:
            raise InvalidTraceError(
                f"{self.database.name} has {str(value)[:60]!r} in a column {column!r}; expected a "
                "whole number >= 0. It is damaged, or no export of nsys."
            )
        return value


_CUDA_NUMBERS = ("gpuId", "cudaId", "pid")
_GPU_FACTS = ("id", "name", "totalMemory", "smCount", "computeMajor", "computeMinor")
_GPU_FACTS_BEFORE_2021 = (
    "deviceId", "name", "globalMemorySize", "numMultiprocessors", "computeCapabilityMajor",
    "computeCapabilityMinor",
)  # fmt: skip

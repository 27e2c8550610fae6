"""The register of trace formats, and the reading of a trace of any of them.

A format is a module (or room) below this one with two functions::

    def recognise(head: bytes, path: Path) -> bool: ...
    def read(path: Path, limits: TraceLimits) -> Trace: ...

``head`` is the beginning of the file, unpacked where it is gzipped, at most :data:`HEAD_BYTES`.
Formats are asked in the order of the register and the first that recognises the content reads it;
names of files say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats import archives
from perfmodel.traces.formats.unpacking import HEAD_BYTES, read_head
from perfmodel.traces.limits import DEFAULT_LIMITS, TraceLimits
from perfmodel.traces.trace import Trace

__all__ = ["FORMATS", "HEAD_BYTES", "TraceFormat", "TraceReader", "read_trace", "read_traces"]


class TraceReader(Protocol):
    """What the module of a format offers."""

    def recognise(self, head: bytes, path: Path) -> bool:
        """Tell whether a file is of the format; cheap, raises nothing."""

    def read(self, path: Path, limits: TraceLimits) -> Trace:
        """Read it, or raise an InvalidTraceError."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceFormat:
    """One format of traces.

    Parameters
    ----------
    description : str
        What writes it, in one line.
    module : str
        Below ``perfmodel.traces.formats``, imported on first use.
    """

    name: str
    description: str
    module: str

    def reader(self) -> TraceReader:
        """Import and return the module that reads the format."""
        return cast(TraceReader, import_module(f"perfmodel.traces.formats.{self.module}"))


#: Name, module and description of every format; the more particular stand first.
_ALL = (
    ("archive", "archives", "Tar (plain or gzipped) and zip archives of traces of any format."),
    ("kineto", "kineto.reader",
     "torch.profiler's Chrome trace (Kineto), NVIDIA and AMD; plain or gzipped."),
    ("onnxruntime", "onnxruntime_profile", "Profile of a session of ONNX Runtime (its JSON)."),
    ("rocprof-json", "amd.rocprof_json", "results.json of rocprof --hip-trace (first generation)."),
    ("rocprofv3-json", "amd.rocprofv3_json", "rocprofv3 --kernel-trace --output-format json."),
    ("pytorch-execution-trace", "graphs.execution_trace",
     "JSON of torch.profiler.ExecutionTraceObserver: calls with shapes, mostly without times."),
    ("chakra", "graphs.chakra", "Chakra execution traces (.et in protobuf, or its JSON)."),
    ("trtexec", "nvidia.trtexec",
     "trtexec --exportProfile, --exportTimes or --exportLayerInfo, with metadata beside them."),
    ("rocpd", "amd.rocpd", "rocprofv3's database (rocpd), what ROCm 7 writes by default."),
    ("pftrace", "amd.pftrace", "rocprofv3 --output-format pftrace: for Perfetto."),
    ("nsys-sqlite", "nvidia.nsys_sqlite", "Nsight Systems: nsys export --type sqlite."),
    ("nsys-stats", "nvidia.nsys_reports",
     "Nsight Systems: nsys stats --format csv (cuda_gpu_trace, cuda_gpu_kern_sum and others)."),
    ("nsys-text", "nvidia.nsys_text", "The same reports as nsys prints them for people, one run."),
    ("xplane", "xplane", "XPlane of XLA's profiler (JAX, TensorFlow): *.xplane.pb."),
    ("rocprof", "amd.dispatches",
     "Dispatches as CSV: rocprof, rocprofv2, rocprofv3 kernel_trace, rocprofiler-compute."),
    ("rocprof-stats", "amd.kernel_sums",
     "Sums of kernels as CSV: rocprof --stats and rocprofv3 --stats."),
    ("rocprof-other", "amd.no_kernels", "Tables of AMD's profilers without kernels (refused)."),
)  # fmt: skip

#: Every trace format by name.
FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {name: TraceFormat(name=name, module=module, description=text) for name, module, text in _ALL}
)


_KNOWN = f"{', '.join(FORMATS)} (docs/traces.md)"
_NCU = "Nsight Compute runs kernels one by one: record with Nsight Systems."
#: Beginnings of files, and ends of names, of what is no trace or has to be exported, and to what.
_INSTEAD = (
    (re.compile(rb"&&&& RUNNING TensorRT\.trtexec"), (),
     "The log of trtexec is for people: give what --exportProfile or --exportTimes wrote."),
    (re.compile(rb'\s*\[\s*\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"dimensions"'), (),
     "Outputs of an engine have no times: give what --exportProfile or --exportTimes wrote."),
    (re.compile(rb'\s*\[\s*\{[^{}]{0,2000}"pid"\s*:\s*"(?:CPU|CUDA) functions"'), (),
     "PyTorch's first profiler (torch.autograd.profiler without Kineto) timed calls between two "
     "events, those inside of them once more: record with torch.profiler."),
    (re.compile(rb'\s*[{\[][^\0]{0,4000}"(?:traceEvents|ph)"'), (),
     "Chrome traces are read of torch.profiler and of rocprof; of JAX and TensorFlow give the "
     "*.xplane.pb."),
    (re.compile(rb'\s*\[\s*\{\s*"Time \(%\)"|\s*\+-+\+[-+]+\r?\n\| *Time'), (),
     "Reports of nsys stats are read with `--format csv`."),
    (re.compile(rb"\s*\[\[-?\d+, ?-?\d+[,\]]"), (),
     "Memory timelines of torch.profiler tell no times of operators: give what "
     "export_chrome_trace wrote."),
    (re.compile(rb"[^\n]{1,2000}\(\d+\): [^\n]{0,20000} \d+\r?\n"), (),
     "Stacks (export_stacks) are sums by line of source: give what export_chrome_trace wrote."),
    (re.compile(rb"(?:\s*-[- ]*\r?\n)?\s*Name\b[^\n]{0,400}Self CPU %"), (),
     "The table of key_averages() is for people: give what export_chrome_trace wrote."),
    (re.compile(rb"\s*(?:<!doctype html|<html)", re.IGNORECASE), (),
     "It is a page of the web: fetch the file itself, or give the trace that the page draws."),
    (re.compile(rb"\x80[\x02-\x05]"), (),
     "It is a pickle, as snapshots of memory are: those are no traces, and nothing is unpickled."),
    (re.compile(rb"version https://git-lfs"), (),
     "It stands for a file of Git LFS: `git lfs pull` fetches that."),
    (re.compile(rb"\x1f\x8b"), (), "It is packed twice: unpack it once."),
    (re.compile(rb"==\d+== "), (), "nvprof is not read: record with Nsight Systems."),
    (re.compile(rb'==PROF==|"ID","Process ID",'), (), _NCU),
    (re.compile(rb"[^\n]{0,200}(?:HtoD|Page ?Faults?)[^\n]{0,200}Migration"), (),
     "Migrations of unified memory have no times: give cuda_gpu_trace or cuda_gpu_kern_sum."),
    (re.compile(rb"\s*ROCPROFV3[^\n]{0,80}SUMMARY"), (),
     "Summaries of rocprofv3 are for people: give its ..._kernel_stats.csv (--stats)."),
    (re.compile(rb'\s*\{\s*"schema"\s*:\s*"\d'), (),
     "Execution traces are read of schemas 1.x."),
    (None, (".nsys-rep", ".qdrep", ".qdstrm", ".h5", ".jsonl"),
     "Export it: `nsys export --type sqlite FILE`, or `nsys stats --format csv FILE`."),
    (None, (".pftrace", ".perfetto-trace", ".proto"),
     "It does not begin as a trace for Perfetto does. Record it again."),
    (re.compile(rb"OTF2"), (".otf2", ".evt", ".def"),
     "OTF2 is not read: it is a folder of files without the ids that join kernels to calls. Of a "
     "run of rocprofv3 give its database (`rocpd convert -i FILE.db --output-format csv` makes a "
     "table of it), or record it again with `--output-format rocpd` (csv, json and pftrace are "
     "read as well)."),
    (None, (".ncu-rep",), _NCU),
    (re.compile(rb"\x28\xb5\x2f\xfd|\xfd7zXZ|BZh\d|7z\xbc\xaf"),
     (".zip", ".zst", ".xz", ".bz2", ".7z"),
     "Unpack it first; gzip, and archives of tar and zip, are read as they are."),
)  # fmt: skip


def _instead(head: bytes, path: Path) -> str:
    """Return what to give instead of a file of no known format; nothing where that is not known."""
    for beginning, ends, reason in _INSTEAD:
        if (beginning and beginning.match(head)) or path.name.lower().endswith(ends or ("\0",)):
            return f" {reason}"
    return ""


def _read(path: Path, head: bytes, limits: TraceLimits) -> Trace:
    """Read a file that is no archive, or a member of one."""
    found = _format(head, path)
    if found is None:
        raise InvalidTraceError(
            f"{path.name} is of no known trace format; it begins with {head[:60]!r}."
            f"{_instead(head, path) or f' Known are: {_KNOWN}.'}"
        )
    trace = found.reader().read(path, limits)
    if not len(trace.operators) and not len(trace.kernels):
        raise InvalidTraceError(
            f"{path.name} ({found.name}) is sound and empty: no kernel and no call is in it. "
            "Nothing ran while it was recorded, or what ran was not asked for: record it again."
        )
    return trace


def _format(head: bytes, path: Path) -> TraceFormat | None:
    return next((one for one in FORMATS.values() if one.reader().recognise(head, path)), None)


def read_trace(
    path: Path, limits: TraceLimits = DEFAULT_LIMITS, *, member: str | None = None
) -> Trace:
    """Read a trace of any format, recognised by its content.

    Parameters
    ----------
    member : str or None
        Name of the trace within an archive; None for the only one that it holds.

    Raises
    ------
    InvalidTraceError
        The file cannot be opened, is of no known format, is refused by its reader, or is empty; or
        it is an archive without such a member, or of several traces.
    """
    head = read_head(path, limits)
    if not archives.recognise(head, path):
        if member is not None:
            raise InvalidTraceError(f"{path.name} is no archive; it has no member {member!r}.")
        return _read(path, head, limits)
    with archives.copied_members(path, head, limits) as copies:
        chosen = copies[_chosen(path.name, copies, member, limits)]
        return _read(chosen, read_head(chosen, limits), limits)


def _chosen(
    archive: str, copies: Mapping[str, Path], member: str | None, limits: TraceLimits
) -> str:
    """Return the name of the only member that is a trace, or of the one that is asked for."""
    if member in copies:
        assert member is not None
        return member
    traces = [
        name
        for name, copy in copies.items()
        if copy.stat().st_size and _format(read_head(copy, limits), copy) is not None
    ]
    if len(traces) == 1 and member is None:
        return traces[0]
    listed = ", ".join(map(repr, traces[:8])) + (", ..." if len(traces) > 8 else "")
    if member is not None:
        raise InvalidTraceError(
            f"{archive} has no member {member!r}; traces in it are {listed or 'none'}."
        )
    if traces:
        raise InvalidTraceError(
            f"{archive} holds {len(traces)} traces: {listed}. --member NAME says which one is "
            "meant; `perfmodel import trace` reads all of them."
        )
    raise InvalidTraceError(
        f"{archive} holds {len(copies)} files and no trace among them. Known are: {_KNOWN}."
    )


def read_traces(path: Path) -> Iterator[tuple[str, Trace | InvalidTraceError]]:
    """Yield the traces of a file, each with its name, or with why it is refused.

    Of an archive they are its members, as ``archive:member``.
    """
    try:
        head = read_head(path, DEFAULT_LIMITS)
        if not archives.recognise(head, path):
            yield path.name, _read(path, head, DEFAULT_LIMITS)
            return
        with archives.copied_members(path, head, DEFAULT_LIMITS) as copies:
            for name, copy in copies.items():
                yield f"{path.name}:{name}", _read_or_reason(copy)
    except InvalidTraceError as error:
        yield path.name, error


def _read_or_reason(path: Path) -> Trace | InvalidTraceError:
    try:
        return _read(path, read_head(path, DEFAULT_LIMITS), DEFAULT_LIMITS)
    except InvalidTraceError as error:
        return error

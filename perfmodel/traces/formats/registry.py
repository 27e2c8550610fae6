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
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.unpacking import HEAD_BYTES, read_head
from perfmodel.traces.limits import DEFAULT_LIMITS, TraceLimits
from perfmodel.traces.trace import Trace

__all__ = ["FORMATS", "HEAD_BYTES", "TraceFormat", "TraceReader", "read_trace"]


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
    ("kineto", "kineto.reader",
     "torch.profiler's Chrome trace (Kineto), NVIDIA and AMD; plain or gzipped."),
    ("onnxruntime", "onnxruntime_profile", "Profile of a session of ONNX Runtime (its JSON)."),
    ("rocprof-json", "amd.rocprof_json", "results.json of rocprof --hip-trace (first generation)."),
    ("rocprofv3-json", "amd.rocprofv3_json", "rocprofv3 --kernel-trace --output-format json."),
    ("pytorch-execution-trace", "graphs.execution_trace",
     "JSON of torch.profiler.ExecutionTraceObserver: calls with shapes, mostly without times."),
    ("chakra", "graphs.chakra", "Chakra execution traces (.et in protobuf, or its JSON)."),
    ("tar", "graphs.archives", "A tar archive with one execution trace in it, packed or not."),
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
     "OTF2 is not read: it is a folder of files without the ids that join kernels to calls. Give "
     "the database, CSV, JSON or pftrace of the same run (`rocprofv3 --output-format rocpd`)."),
    (None, (".ncu-rep",), _NCU),
    (re.compile(rb"PK\x03\x04|\x28\xb5\x2f\xfd|\xfd7zXZ|BZh\d|7z\xbc\xaf"),
     (".zip", ".zst", ".xz", ".bz2", ".7z"), "Unpack it first; gzip is read as it is."),
)  # fmt: skip


def _instead(head: bytes, path: Path) -> str:
    """Return what to give instead of a file of no known format; nothing where that is not known."""
    for beginning, ends, reason in _INSTEAD:
        if (beginning and beginning.match(head)) or path.name.lower().endswith(ends or ("\0",)):
            return f" {reason}"
    return ""


def _told(file: str, read_as: TraceFormat, trace: Trace) -> Trace:
    """Return a trace that tells of anything."""
    if not len(trace.operators) and not len(trace.kernels):
        raise InvalidTraceError(
            f"{file} ({read_as.name}) is sound and empty: no kernel and no call is in it. Nothing "
            "ran while it was recorded, or what ran was not asked for: record it again."
        )
    return trace


def read_trace(path: Path, limits: TraceLimits = DEFAULT_LIMITS) -> Trace:
    """Read a trace of any format, recognised by its content.

    Raises
    ------
    InvalidTraceError
        The file cannot be opened, is of no known format, is refused by its reader, or is empty.
    """
    head = read_head(path, limits)
    for one in FORMATS.values():
        reader = one.reader()
        if reader.recognise(head, path):
            return _told(path.name, one, reader.read(path, limits))
    instead = _instead(head, path)
    raise InvalidTraceError(
        f"{path.name} is of no known trace format; it begins with {head[:60]!r}.{instead} "
        f"Known are: {', '.join(FORMATS)} (docs/traces.md)."
    )

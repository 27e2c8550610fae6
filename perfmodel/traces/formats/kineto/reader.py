"""Reads traces of torch.profiler: what stands around the events, and the joins at the end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.json_events import JsonEvents
from perfmodel.traces.formats.kineto.events import KinetoRows
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.joining.nesting import join_kernels
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import KernelKind, Trace
from perfmodel.traces.traced_devices import TracedDevice, traced_device

_NAME = "kineto"
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
#: The events alone, as tools that filter traces leave them.
_BARE = re.compile(rb"\s*\[\s*\{")
#: What Kineto alone writes before its events and in them; fragments that tools cut out keep one.
_OWN = re.compile(
    rb'"(?:schemaVersion|deviceProperties|distributedInfo|Record function id|ProfilerStep[^"]*)"'
    rb'|"cat"\s*:\s*"(?:cpu_op|Operator|user_annotation|kernel|gpu_memcpy|\w+_runtime)"'
)
#: The only version of the format so far.
_SCHEMA = 1
_VERSIONS = {
    "cuda_runtime_version": "cuda", "cuda_driver_version": "cuda_driver", "cupti_version": "cupti",
    "hip_runtime_version": "hip", "hip_driver_version": "hip_driver",
    "roctracer_version": "roctracer",
}  # fmt: skip


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a Chrome trace of Kineto."""
    if _OWN.search(head) is None:
        return False
    if head.lstrip().startswith(b"["):
        return _BARE.match(head) is not None and b'"ph"' in head
    return head.lstrip().startswith(b"{") and (
        _EVENTS.search(head) is not None or b'"deviceProperties"' in head
    )


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read a Chrome trace of Kineto, plain or gzipped.

    A file that ends too early is read up to there and is not ``complete``.

    Raises
    ------
    InvalidTraceError
        It is no such trace, is broken, beyond the limits, or holds nothing that was profiled.
    """
    events = JsonEvents(unpacked(path, limits), key="traceEvents", name=path.name, limits=limits)
    builder = TraceBuilder(_NAME, limits)
    rows = KinetoRows(builder, path.name)
    for batch in events.batches():
        rows.add(batch)
    _describe(builder, events.members)
    _check(rows, events, path.name)
    rows.part_processes()
    builder.notes += rows.notes()
    trace = builder.build(rows.earliest_launch_ns())
    return _with_collectives(join_kernels(trace, rows.launches(builder.origin_ns), rows.external()))


def _check(rows: KinetoRows, events: JsonEvents, name: str) -> None:
    builder = rows.builder
    if not builder.operator_count and not builder.kernel_count:
        raise InvalidTraceError(
            f"{name} holds {rows.seen} events, none of them an operator or a kernel: "
            f"{rows.categories() or 'none has a category'}. It is no trace of torch.profiler, "
            "nothing was profiled, or another tool has rewritten it: give the file that "
            "export_chrome_trace wrote, with a schedule in on_trace_ready: afterwards the next "
            "cycle has begun."
        )
    if events.cut:
        builder.complete = False
        builder.notes.append(
            f"The trace is cut: {events.cut.rstrip('.')}. {rows.seen} events were read; sums are "
            "too small and the last step is not whole."
        )
    if rows.untimed_kernels:
        builder.complete = False
    builder.notes += events.notes()


def _describe(builder: TraceBuilder, members: Mapping[str, Any]) -> None:
    schema = members.get("schemaVersion", _SCHEMA)
    if schema != _SCHEMA:
        builder.notes.append(
            f"The trace is of version {str(schema)[:40]} of its format; known is {_SCHEMA}, as "
            "which it was read."
        )
    devices = members.get("deviceProperties")
    for facts in devices if isinstance(devices, list) else ():
        if isinstance(facts, dict):
            builder.devices.append(_device(facts, len(builder.devices)))
    for key, word in _VERSIONS.items():
        if key in members:
            builder.software[word] = version_text(word, members[key])
    builder.trace_id = str(members.get("trace_id", ""))[:40]
    # Newer traces count from a moment that they name, older ones from 1970 on.
    builder.epoch_ns = _whole(members.get("baseTimeNanoseconds")) or 0
    distributed = members.get("distributedInfo")
    if isinstance(distributed, dict):
        builder.rank = _whole(distributed.get("rank"))
        builder.world_size = _whole(distributed.get("world_size"))
        for key, word in (("backend", "collectives"), ("nccl_version", "nccl")):
            if isinstance(distributed.get(key), str):
                builder.software[word] = distributed[key][:40]


def _device(facts: Mapping[str, Any], position: int) -> TracedDevice:
    index = _whole(facts.get("id"))
    amd = "maxSharedMemoryPerMultiProcessor" in facts
    major, minor = _whole(facts.get("computeMajor")), _whole(facts.get("computeMinor"))
    return traced_device(
        position if index is None else index,
        str(facts.get("name", "")),
        memory_bytes=_whole(facts.get("totalGlobalMem")),
        multiprocessors=_whole(facts.get("numSms")),
        architecture=_architecture(major, minor, amd=amd),
    )


def _architecture(major: int | None, minor: int | None, *, amd: bool) -> str:
    """Return the compute capability; of AMD chips the beginning of their LLVM target."""
    if major is None or minor is None:
        return ""
    return f"gfx{major}{minor:x}" if amd else f"{major}.{minor}"


def version_text(word: str, value: Any) -> str:
    """Return a version from the number that a driver packs it into.

    Examples
    --------
    >>> version_text("cuda", "12040"), version_text("hip", "70051831"), version_text("cupti", 22)
    ('12.4', '7.0.51831', '22')
    """
    number = int(value) if str(value).isdigit() and len(str(value)) < 12 else None
    if number is None:
        return str(value)[:40]
    if word in ("cuda", "cuda_driver"):
        return f"{number // 1000}.{number % 1000 // 10}"
    if word in ("hip", "hip_driver"):
        return f"{number // 10**7}.{number // 10**5 % 100}.{number % 10**5}"
    return str(number)


def _whole(value: Any) -> int | None:
    """Return a whole number, also one in quotes, or None."""
    if type(value) is str and value.isdecimal() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and 0 <= value < 2**62 else None


#: What process groups of PyTorch note around the launch of a collective: ``nccl:all_reduce``,
#: ``xccl:broadcast``, ``hccl:...``. Operators that they call meanwhile are calls of their own.
_CALLS = re.compile(r"record_param_comms$|\w*ccl:\w+")


def _with_collectives(trace: Trace) -> Trace:
    """Return a trace whose kernels are collectives where a collective launched them itself."""
    names = np.array([_CALLS.match(name) is not None for name in trace.names], dtype=np.bool_)
    kernels = trace.kernels
    called = np.flatnonzero((kernels.operator >= 0) & (kernels.kind == KernelKind.COMPUTE))
    found = called[names[trace.operators.name[kernels.operator[called]]]]
    if not len(found):
        return trace
    kind = kernels.kind.copy()
    kind[found] = KernelKind.COLLECTIVE
    return replace(trace, kernels=replace(kernels, kind=kind))

"""XPlane files of XLA's profiler (``*.xplane.pb``): what GPUs ran for JAX and TensorFlow.

The schema is ``xplane.proto`` of OpenXLA. A plane is a device, a line of it a stream, an event a
kernel or a copy; times are picoseconds from the nanosecond that a line states. A file is one
message and has to be in memory as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.protobuf_messages import message_classes
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import LATEST_NS, TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace
from perfmodel.traces.traced_devices import TracedDevice, traced_device

NAME = "xplane"
#: A plane (field 1), which begins with its number or its name.
_BEGINNING = re.compile(rb"^\x0a.{1,5}?(?:\x08.{1,10}?)?\x12.{1,2}?/(?:host|device):", re.DOTALL)
_LARGEST_BYTES = 256 * 2**20
_DEVICE = re.compile(r"^/device:GPU:(\d{1,4})")
_STREAM = re.compile(r"^Stream #(\d{1,9})")
_SIZE = re.compile(rb"\bsize:(\d{1,18})")
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str, bool]]] = {
    "Stat": {
        "metadata_id": (1, "int64", False), "uint64_value": (3, "uint64", False),
        "int64_value": (4, "int64", False), "str_value": (5, "bytes", False),
    },
    "Event": {
        "metadata_id": (1, "int64", False), "offset_ps": (2, "int64", False),
        "duration_ps": (3, "int64", False), "stats": (4, "Stat", True),
    },
    "Line": {
        "name": (2, "bytes", False), "timestamp_ns": (3, "int64", False),
        "events": (4, "Event", True),
    },
    "Metadata": {"name": (2, "bytes", False)},
    "Entry": {"key": (1, "int64", False), "value": (2, "Metadata", False)},
    "Plane": {
        "name": (2, "bytes", False), "lines": (3, "Line", True),
        "event_metadata": (4, "Entry", True), "stat_metadata": (5, "Entry", True),
        "stats": (6, "Stat", True),
    },
    "Space": {"planes": (1, "Plane", True)},
}  # fmt: skip


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is of XLA's profiler."""
    return _BEGINNING.match(head[:64]) is not None


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read what GPUs ran.

    Raises
    ------
    InvalidTraceError
        It is damaged, too large to be held in memory, or lists nothing that a GPU ran.
    MissingExtraError
        protobuf is not installed.
    """
    space = message_classes(_MESSAGES)["Space"]
    from google.protobuf.message import DecodeError

    with path.open("rb") as file:
        text = file.read(_LARGEST_BYTES + 1)
    if text.startswith(b"\x1f\x8b") or len(text) > _LARGEST_BYTES:
        raise InvalidTraceError(
            f"{path.name} is packed or larger than {_LARGEST_BYTES // 2**20} MiB, and an XPlane "
            "file is one message that memory must hold: unpack it, or profile fewer steps."
        )
    builder = TraceBuilder(NAME, limits)
    try:
        planes = space.FromString(text).planes
    except DecodeError as error:
        raise InvalidTraceError(
            f"{path.name} is no whole XPlane file: {error}. Copy it again."
        ) from error
    for plane in planes:
        found = _DEVICE.match(_text(plane.name))
        if found:
            _add_plane(builder, plane, int(found[1]), path.name)
    if not builder.kernel_count:
        raise InvalidTraceError(
            f"{path.name} lists nothing that a GPU ran: its planes are "
            f"{', '.join(_text(plane.name) for plane in planes[:8]) or 'none'}. TPUs and hosts are "
            "not read."
        )
    return builder.build()


def _add_plane(builder: TraceBuilder, plane: Any, index: int, file: str) -> None:
    names = {entry.key: _text(entry.value.name) for entry in plane.event_metadata}
    stats = {entry.key: _text(entry.value.name) for entry in plane.stat_metadata}
    builder.devices.append(_device(plane, index, stats))
    for line in plane.lines:
        stream = _STREAM.match(_text(line.name))
        if stream is None:
            continue  # Steps, modules and operators are drawn from the streams once more.
        for event in line.events:
            _add_event(builder, event, line, index, int(stream[1]), names, stats, file)


def _add_event(
    builder: TraceBuilder,
    event: Any,
    line: Any,
    device: int,
    stream: int,
    names: Mapping[int, str],
    stats: Mapping[int, str],
    file: str,
) -> None:
    name = names.get(event.metadata_id, f"event {event.metadata_id}")
    start_ns = line.timestamp_ns + round(event.offset_ps / 1000)
    if not (0 <= start_ns < LATEST_NS and event.duration_ps >= 0 and event.offset_ps >= 0):
        raise InvalidTraceError(
            f"{file}: {name[:200]!r} starts at {start_ns} ns and takes {event.duration_ps} ps; "
            "expected times >= 0. The file is damaged: take it again."
        )
    copied = next(
        (s.str_value for s in event.stats if stats.get(s.metadata_id) == "memcpy_details"), None
    )
    size = None if copied is None else _SIZE.search(copied)
    builder.add_kernel(
        name,
        start_ns=start_ns,
        duration_ns=round(event.duration_ps / 1000),
        device=device,
        stream=stream,
        kind=kernel_kind(name) if copied is None else KernelKind.COPY,
        size_bytes=UNKNOWN if size is None else int(size[1]),
    )


def _device(plane: Any, index: int, stats: Mapping[int, str]) -> TracedDevice:
    facts = {
        stats.get(one.metadata_id, ""): one.uint64_value or one.int64_value for one in plane.stats
    }
    vendor = next(
        (_text(s.str_value) for s in plane.stats if stats.get(s.metadata_id) == "device_vendor"), ""
    )
    major, minor = facts.get("compute_cap_major"), facts.get("compute_cap_minor")
    capability = "" if major is None else f"{major}.{minor or 0}"
    # No plane names its device. AMD's states the first two digits of gfx942; the facts decide.
    return traced_device(
        index,
        "" if vendor == "AMD" else vendor,
        memory_bytes=facts.get("memory_size") or None,
        multiprocessors=facts.get("core_count") or None,
        architecture=f"gfx{major}{minor or 0}" if vendor == "AMD" else capability,
    )


def _text(value: bytes) -> str:
    return value.decode(errors="replace")

"""rocprofv3's traces for Perfetto: ``rocprofv3 --output-format pftrace``, ``rocpd convert``.

A stream of packets in protobuf. Kernels, copies and calls are slices that carry their times,
correlation ids and agents as annotations, so that neither clocks nor ends of slices are needed.
Words are written once and then referred to, for each sequence of packets anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder, duration_ns
from perfmodel.traces.formats.launch_calls import LaunchCalls
from perfmodel.traces.formats.protobuf_messages import delimited, message_classes, varint
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace
from perfmodel.traces.traced_devices import traced_device

NAME = "pftrace"
_PACKET = b"\x0a"
_SLICE_BEGINS = 1
_FORGET_WORDS = 1
#: Correlation ids count from one in each process.
_ID_BITS = 40
#: Tracks lie in each other: a queue or a thread in its process.
_MOST_NESTED = 4
#: What a word takes beside its letters.
_WORD_BYTES = 200
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str, bool]]] = {
    "Word": {"iid": (1, "uint64", False), "name": (2, "bytes", False)},
    "Words": {
        "categories": (1, "Word", True), "names": (2, "Word", True), "keys": (3, "Word", True),
    },
    "Annotation": {
        "key": (1, "uint64", False), "uint_value": (3, "uint64", False),
        "int_value": (4, "int64", False), "string_value": (6, "bytes", False),
        "key_name": (10, "bytes", False),
    },
    "Event": {
        "category": (3, "uint64", True), "annotations": (4, "Annotation", True),
        "type": (9, "enum", False), "name": (10, "uint64", False), "track": (11, "uint64", False),
        "category_name": (22, "bytes", True), "own_name": (23, "bytes", False),
    },
    "Track": {"uuid": (1, "uint64", False), "parent": (5, "uint64", False)},
    "Buffer": {"overwritten": (3, "uint64", False), "discarded": (18, "uint64", False)},
    "Statistics": {"buffers": (1, "Buffer", True)},
    "Packet": {
        "sequence": (10, "uint64", False), "event": (11, "Event", False),
        "words": (12, "Words", False), "flags": (13, "uint64", False),
        "statistics": (35, "Statistics", False), "packed": (50, "bytes", False),
        "track": (60, "Track", False),
    },
}  # fmt: skip
_INDEX = re.compile(r"(\d{1,4})\]?$")
_LOST = (
    "The buffer of the trace was full: what came later is missing. Record with "
    "`--perfetto-buffer-size`, or without `--output-format pftrace`."
)
_TRIMMED = (
    "rocprofv3 draws kernels of a queue that overlap as if one ended where the next begins: their "
    "sum is smaller than in its CSV."
)


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file begins with a packet: each states who wrote it, as a number."""
    found = varint(head, 1) if head.startswith(_PACKET) else None
    if found is None or not found[0]:
        return False
    size, start = found
    return bool({(3, 0), (10, 0)} & _fields(head[start : start + size]))


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read kernels, copies and when each was launched, of all processes.

    Raises
    ------
    InvalidTraceError
        It is cut or damaged, or not of rocprofv3.
    MissingExtraError
        protobuf is not installed.
    """
    packet = message_classes(_MESSAGES)["Packet"]
    from google.protobuf.message import DecodeError

    packets = _Packets(path.name, limits)
    try:
        for message in delimited(unpacked(path, limits), path.name, tag=_PACKET):
            packets.take(packet.FromString(message))
    except DecodeError as error:
        raise InvalidTraceError(
            f"{path.name} has a packet that is none: {error}. It is damaged; copy it again."
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidTraceError(
            f"{path.name} has a slice that is not as rocprofv3 writes it ({type(error).__name__}: "
            f"{error})."
        ) from error
    return packets.build()


class _Words:
    """The words of a sequence of packets by their numbers."""

    def __init__(self) -> None:
        self.categories: dict[int, str] = {}
        self.names: dict[int, str] = {}
        self.keys: dict[int, str] = {}
        self.size_bytes = 0

    def learn(self, words: Any) -> int:
        """Add words and return what they take."""
        took_bytes = _WORD_BYTES
        for known, written in (
            (self.categories, words.categories),
            (self.names, words.names),
            (self.keys, words.keys),
        ):
            for word in written:
                known[word.iid] = _text(word.name)
                took_bytes += _WORD_BYTES + len(word.name)
        self.size_bytes += took_bytes
        return took_bytes


class _Packets:
    """What was read so far."""

    def __init__(self, file: str, limits: TraceLimits) -> None:
        self.file = file
        self.limits = limits
        self.builder = TraceBuilder(NAME, limits)
        self.launches = LaunchCalls(self.builder)
        self._takers = {
            "kernel_dispatch": self._kernel, "memory_copy": self._copy, "hip_api": self._call,
        }  # fmt: skip
        self._words: dict[int, _Words] = {}
        self._words_bytes = 0
        self._devices: set[int] = set()
        self._parents: dict[int, int] = {}
        #: Processes by the track that all of their tracks lie in.
        self._processes: dict[int, int] = {}

    def build(self) -> Trace:
        if not self.builder.kernel_count:
            raise InvalidTraceError(
                f"{self.file} is a trace for Perfetto without a kernel of rocprofv3; those of "
                "other programs are not read. Record with `rocprofv3 --kernel-trace "
                "--memory-copy-trace --hip-trace`."
            )
        self.builder.notes.append(_TRIMMED)
        return self.launches.build()

    def take(self, packet: Any) -> None:
        if packet.packed:
            raise InvalidTraceError(
                f"{self.file} holds packed packets, which rocprofv3 does not write; unpack it with "
                "`traceconv decompress_packets`."
            )
        if packet.flags & _FORGET_WORDS and packet.sequence in self._words:
            self._words_bytes -= self._words.pop(packet.sequence).size_bytes
        if packet.HasField("words"):
            words = self._words.setdefault(packet.sequence, _Words())
            self._words_bytes += words.learn(packet.words)
            self._check(self._words_bytes, self.limits.names_bytes, "bytes of words")
        if packet.HasField("track"):
            self._parents[packet.track.uuid] = packet.track.parent
            self._check(len(self._parents), self.limits.threads, "tracks")
        if packet.HasField("event") and packet.event.type == _SLICE_BEGINS:
            self._slice(packet.event, self._words.get(packet.sequence) or _Words())
        if packet.HasField("statistics") and self.builder.complete:
            buffers = packet.statistics.buffers
            self.builder.complete = not any(one.overwritten or one.discarded for one in buffers)
            self.builder.notes += [] if self.builder.complete else [_LOST]

    def _slice(self, event: Any, words: _Words) -> None:
        categories = [_text(one) for one in event.category_name]
        categories += [words.categories.get(one, "") for one in event.category]
        take = next((self._takers[one] for one in categories if one in self._takers), None)
        if take is None:
            return
        facts = {
            _text(one.key_name) or words.keys.get(one.key, ""): _text(one.string_value)
            or one.uint_value
            or one.int_value
            for one in event.annotations
        }
        name = _text(event.own_name) or words.names[event.name]
        start_ns = int(facts["begin_ns"])
        took_ns = duration_ns(self.file, name, start_ns, int(facts["end_ns"]))
        correlation = int(facts["corr_id"])
        joined = 0 < correlation < 1 << _ID_BITS
        shared = self._process(event.track) << _ID_BITS | correlation if joined else UNKNOWN
        take(name, start_ns, took_ns, shared, facts)

    def _kernel(
        self, name: str, start_ns: int, took_ns: int, shared: int, facts: Mapping[str, Any]
    ) -> None:
        agent, kind = facts["agent"], kernel_kind(name)
        self._add(name, start_ns, took_ns, shared, facts, self._device(agent), kind, UNKNOWN)

    def _copy(
        self, name: str, start_ns: int, took_ns: int, shared: int, facts: Mapping[str, Any]
    ) -> None:
        agent = facts["src_agent" if "DEVICE_TO_HOST" in name else "dst_agent"]
        size, kind = int(facts["copy_bytes"]), KernelKind.COPY
        self._add(name, start_ns, took_ns, shared, facts, self._device(agent), kind, size)

    def _call(
        self, name: str, start_ns: int, took_ns: int, shared: int, facts: Mapping[str, Any]
    ) -> None:
        self.launches.add(shared, start_ns, took_ns, graph="GraphLaunch" in name)

    def _add(
        self, name: str, start_ns: int, took_ns: int, shared: int, facts: Mapping[str, Any],
        device: int, kind: KernelKind, size_bytes: int,
    ) -> None:  # fmt: skip
        lane = int(facts.get("stream_id", facts.get("queue", UNKNOWN)))
        self.builder.add_kernel(
            name,
            start_ns=start_ns,
            duration_ns=took_ns,
            device=device,
            stream=lane if 0 <= lane < 2**31 else UNKNOWN,
            kind=kind,
            size_bytes=size_bytes,
        )
        self.launches.of_kernels.append(shared)

    def _device(self, agent: object) -> int:
        """Return the number of an agent; nothing more of it is told."""
        found = _INDEX.search(str(agent))
        if found is None:
            return UNKNOWN
        index = int(found[1])
        if index not in self._devices:
            self._devices.add(index)
            self.builder.devices.append(traced_device(index, ""))
        return index

    def _process(self, track: int) -> int:
        """Return the number of the process that a track is of."""
        for _ in range(_MOST_NESTED):
            track = self._parents.get(track) or track
        number = self._processes.setdefault(track, len(self._processes))
        self._check(number, self.limits.threads, "processes")
        return number

    def _check(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise InvalidTraceError(
                f"{self.file} has more than {most} {what}, which no trace has; trace fewer steps."
            )


def _fields(message: bytes) -> frozenset[tuple[int, int]]:
    """Return number and wire type of each field of a message, as far as they can be read."""
    found, at = set(), 0
    while (key := varint(message, at)) is not None and at < len(message):
        number, kind = key[0] >> 3, key[0] & 7
        found.add((number, kind))
        at = key[1]
        if kind == 0:
            ends = (i for i in range(at, min(at + 10, len(message))) if message[i] < 0x80)
            at = next(ends, len(message)) + 1
        elif kind == 2 and (size := varint(message, at)) is not None:
            at = size[1] + size[0]
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            break
    return frozenset(found)


def _text(value: bytes) -> str:
    return value.decode(errors="replace")

"""Chakra execution traces: MLCommons' schema, as protobuf (``.et``) and as JSON.

A file of protobuf is a header and then nodes, each after its length. Calls are told apart from
kernels by the attribute ``is_cpu_op``. Durations are microseconds without a start; arguments are
lists in Python's notation. The JSON is the one that Chakra's feeder takes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.graphs.node_rows import NodeRows
from perfmodel.traces.formats.json_events import JsonEvents
from perfmodel.traces.formats.protobuf_messages import delimited, message_classes
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.kernel_kinds import kernel_kind
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import UNKNOWN, KernelKind, Trace

NAME = "chakra"
#: Length of the header, then its first attribute, of the name "schema".
_BINARY = re.compile(rb"^[\x00-\xff]{1,2}(?:\x0a[\x00-\x40].{0,64})?\x12.\x0a\x06schema", re.DOTALL)
_JSON = re.compile(rb'\s*\{\s*"workload_graph"\s*:\s*\[')
#: A call that kernels interrupt is written in parts: ``aten::batch_norm(0)``, ``(1)``.
_PART = re.compile(r"(?<=\w)\(\d{1,6}\)$")
_LONGEST_LIST = 2**16
_COLLECTIVES = (5, 6, 7)
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str, bool]]] = {
    "Attribute": {
        "name": (1, "bytes", False), "int64_val": (9, "int64", False),
        "uint64_val": (13, "uint64", False), "bool_val": (27, "bool", False),
        "string_val": (29, "bytes", False),
    },
    "Header": {"version": (1, "bytes", False), "attr": (2, "Attribute", True)},
    "Arguments": {
        "values": (1, "bytes", False), "shapes": (2, "bytes", False), "types": (3, "bytes", False),
    },
    "Node": {
        "id": (1, "uint64", False), "name": (2, "bytes", False), "type": (3, "enum", False),
        "ctrl_deps": (4, "uint64", True), "duration_micros": (7, "uint64", False),
        "inputs": (8, "Arguments", False), "outputs": (9, "Arguments", False),
        "attr": (10, "Attribute", True),
    },
}  # fmt: skip
_DURATIONS = (
    "Durations without a timeline: idle time and overlap are not known. They are whole "
    "microseconds; short ones are coarse."
)


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file is a Chakra trace."""
    return _BINARY.match(head[:512]) is not None or _JSON.match(head) is not None


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read a Chakra trace.

    Raises
    ------
    InvalidTraceError
        It is cut or damaged.
    MissingExtraError
        protobuf is not installed.
    """
    name, pieces = path.name, unpacked(path, limits)
    first = next(pieces, b"")
    rest = _chained(first, pieces)
    nodes = _ChakraNodes(TraceBuilder(NAME, limits), name)
    try:
        if first.lstrip()[:1] == b"{" and _JSON.match(first):
            nodes.read_json(rest)
        else:
            nodes.read_protobuf(rest)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidTraceError(
            f"{name} has a node that is none ({type(error).__name__}: {error}). It is damaged, or "
            "of another program."
        ) from error
    return nodes.build()


class _ChakraNodes:
    """Nodes as rows of calls and of kernels."""

    def __init__(self, builder: TraceBuilder, file: str) -> None:
        self.builder = builder
        self.file = file
        self.rows = NodeRows(builder, file)

    def build(self) -> Trace:
        self.builder.notes.append(_DURATIONS)
        return self.rows.build()

    def read_json(self, pieces: Iterator[bytes]) -> None:
        events = JsonEvents(
            pieces,
            key="workload_graph",
            name=self.file,
            limits=self.builder.limits.small_events,
        )
        for batch in events.batches():
            for node in batch:
                callers = node.get("ctrlDeps") or []
                facts = {"is_cpu_op": node["is_cpu_op"]}
                self._add(
                    _whole(node["Id"]), str(node["Name"]), _whole(node["NodeType"]),
                    callers, _whole(node.get("runtime", 0)), facts, ((), ()),
                )  # fmt: skip
        if events.cut:
            raise InvalidTraceError(f"{self.file} is cut: {events.cut}. Copy it again.")

    def read_protobuf(self, pieces: Iterator[bytes]) -> None:
        classes = message_classes(_MESSAGES)
        from google.protobuf.message import DecodeError

        messages = delimited(pieces, self.file)
        try:
            header = classes["Header"].FromString(next(messages, b""))
            for attribute in header.attr:
                if attribute.name == b"schema":
                    self.builder.software["execution_trace_schema"] = _text(attribute.string_val)
            for message in messages:
                self._add_message(classes["Node"].FromString(message))
        except DecodeError as error:
            raise InvalidTraceError(
                f"{self.file} has a message that is no Chakra node: {error}. Copy it again."
            ) from error

    def _add_message(self, node: Any) -> None:
        facts = {
            _text(one.name): one.uint64_val or one.int64_val or one.bool_val for one in node.attr
        }
        arguments = [
            [_literal(part.values), _literal(part.shapes), _literal(part.types), None]
            for part in (node.inputs, node.outputs)
        ]
        self._add(
            node.id, _text(node.name), node.type, list(node.ctrl_deps), node.duration_micros,
            facts, arguments,
        )  # fmt: skip

    def _add(
        self,
        number: int,
        name: str,
        kind: int,
        callers: list[int],
        duration_us: int,
        facts: Mapping[str, Any],
        arguments: Any,
    ) -> None:
        if not facts.get("is_cpu_op", True):
            of_name = kernel_kind(name)
            collective = kind in _COLLECTIVES and of_name is KernelKind.COMPUTE
            self.builder.add_kernel(
                name,
                duration_ns=duration_us * 1000,
                kind=KernelKind.COLLECTIVE if collective else of_name,
                size_bytes=_whole(facts.get("comm_size", UNKNOWN) or UNKNOWN, UNKNOWN),
            )
            self.rows.launched(_whole(callers[0]) if callers else UNKNOWN)
            return
        inputs, outputs = (part or (None,) * 4 for part in arguments)
        self.rows.add(
            _whole(number),
            _whole(callers[0]) if callers else UNKNOWN,
            _PART.sub("", name),
            inputs,
            outputs,
            duration_ns=duration_us * 1000 if duration_us else UNKNOWN,
            thread=int(facts.get("tid", 0)) % 2**31,
            sequence=int(facts.get("seq_id", UNKNOWN)) if facts.get("seq_id", -1) >= 0 else UNKNOWN,
        )


def _literal(text: bytes) -> Any:
    """Return a list in Python's notation; None where it is none or too long."""
    if not text or len(text) > _LONGEST_LIST:
        return None
    try:
        # Twenty times as fast, and right unless a string holds one of these.
        return orjson.loads(
            text.replace(b"'", b'"').replace(b"True", b"true").replace(b"False", b"false")
        )
    except orjson.JSONDecodeError:
        pass
    try:
        return ast.literal_eval(_text(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _whole(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value < 2**62:
        raise ValueError(f"{str(value)[:40]} is no whole number")
    return value


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest

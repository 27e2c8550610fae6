"""Ranges of NVTX as calls on the host; PyTorch writes operators into their text.

``emit_nvtx(record_shapes=True)`` writes ``aten::addmm, seq = 12, sizes = [[10], [32, 64], ...]``,
and newer versions ``op_id`` and ``input_op_ids`` beside it.
"""

from __future__ import annotations

import re

import orjson

from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.argument_table import ArgumentTable
from perfmodel.traces.trace import UNKNOWN, OperatorArguments, TracedInput, TracedTensor

_NUMBERS = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = ")
_SEQUENCE = re.compile(r", seq = (\d{1,18})(?:,|$)")
_SIZES = re.compile(r", sizes = (\[.*?\])(?:, input_op_ids = |, op_id = |$)")
_LONGEST_SIZES = 65_536


def nvtx_operator(
    builder: TraceBuilder,
    table: ArgumentTable,
    text: str,
    start_ns: int,
    duration_ns: int,
    thread: int,
) -> None:
    """Add a range as a call on the host, its arguments through a table."""
    marked = _NUMBERS.search(text)
    sequence, sizes = _SEQUENCE.search(text), _SIZES.search(text)
    shapes = None if sizes is None else _shapes(sizes[1])
    builder.add_operator(
        text if marked is None else text[: marked.start()],
        start_ns=start_ns,
        duration_ns=duration_ns,
        thread=thread,
        arguments=UNKNOWN if shapes is None else table.position(shapes, lambda: _arguments(shapes)),
        sequence=UNKNOWN if sequence is None else int(sequence[1]),
    )


def _shapes(text: str) -> tuple[tuple[int, ...], ...] | None:
    """Return a shape for each argument; None where the text is no such list."""
    if len(text) > _LONGEST_SIZES:
        return None
    try:
        found = orjson.loads(text)
        return tuple(tuple(extent for extent in shape if _checked(extent)) for shape in found)
    except (orjson.JSONDecodeError, TypeError, ValueError):
        return None


def _checked(extent: object) -> bool:
    if type(extent) is not int or not 0 <= extent < 2**62:
        raise ValueError(extent)
    return True


def _arguments(shapes: tuple[tuple[int, ...], ...]) -> OperatorArguments:
    """Return arguments; what has no extents is a number or nothing."""
    return OperatorArguments(
        inputs=tuple(
            TracedInput(tensors=(TracedTensor(shape=shape, dtype=""),)) if shape else TracedInput()
            for shape in shapes
        )
    )

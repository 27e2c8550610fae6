"""Canonical JSON of a graph; it keeps order and names, which the content hash forgets."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from perfmodel.errors import InvalidGraphError
from perfmodel.graph.ir import AttrValue, Graph, Node
from perfmodel.graph.rows import (
    MAX_ELEMENTS,
    MAX_OP_LENGTH,
    MAX_RANK,
    expect,
    read_nodes,
    read_tensors,
    wrong,
)

FORMAT_VERSION = 1

#: Bounds on what is accepted, so that a hostile file costs little time and memory; those of single
#: rows are in :mod:`perfmodel.graph.rows`.
MAX_BYTES = 64 << 20
MAX_TOKENS = 2_000_000
MAX_NODES = 120_000
MAX_TENSORS = 200_000

#: Digits in a row that no number that is read has; told by looking for as many zeros where every
#: digit is put to zero, which takes a tenth of the time of a regular expression.
_LONG_NUMBER = b"0" * 400
#: And those that no number has which is read into 64 bits.
_WIDE_NUMBER = b"0" * 19
_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


def to_json(graph: Graph) -> bytes:
    """Write a graph as canonical JSON: sorted keys, no spaces, ASCII.

    Returns
    -------
    bytes
        The same bytes for the same graph on every machine; read back by :func:`from_json`.
    """
    try:
        text = _quickly_written(graph)
        # Two sorts of letters are written in another way by the quick writer.
        if text.isascii() and b"\x7f" not in text:
            return text
    except (TypeError, ValueError):
        pass
    document = {
        "format": FORMAT_VERSION,
        "nodes": [_node_row(node) for node in graph.nodes],
        "source": dict(graph.source),
        "tensors": [(t.shape, t.dtype, t.role, t.storage) for t in graph.tensors],
    }
    return _written(document).encode("ascii")


def _quickly_written(graph: Graph) -> bytes:
    """Write a graph with the quick writer, attributes aside: it has another form of floats.

    Raises
    ------
    TypeError, ValueError
        Something in it is not for the quick writer, or for JSON at all.
    """
    fragments: dict[bytes, orjson.Fragment] = {}
    rows = []
    for node in graph.nodes:
        attrs: Any = node.attrs
        if attrs:
            key = orjson.dumps(attrs)
            attrs = fragments.get(key)
            if attrs is None:
                attrs = fragments[key] = _fragment(node.attrs, key)
        rows.append((node.op, node.phase, node.inputs, node.outputs, attrs or _EMPTY, node.name))
    document = {
        "format": FORMAT_VERSION,
        "nodes": rows,
        "source": dict(sorted(graph.source.items())),
        "tensors": [(t.shape, t.dtype, t.role, t.storage) for t in graph.tensors],
    }
    return orjson.dumps(document)


_EMPTY: Mapping[str, AttrValue] = {}


def _fragment(attrs: Mapping[str, AttrValue], key: bytes) -> orjson.Fragment:
    """Return attributes as they are written, given what the quick writer makes of them.

    Raises
    ------
    ValueError
        Others may look the same to the quick writer, which has one word for nothing, infinity and
        what is no number.
    """
    if b"null" in key:
        raise ValueError("an attribute may hold a number that is not finite")
    return orjson.Fragment(_written(attrs))


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_json(text: bytes | str, *, bounded: bool = True) -> Graph:
    """Read a graph from canonical JSON.

    Parameters
    ----------
    text : bytes or str
        As written by :func:`to_json`; may come from anybody.
    bounded : bool
        Refuse what is larger than the bounds of this module; False for what this program captured
        itself, where hundreds of layers in several micro-batches are no attack.

    Raises
    ------
    InvalidGraphError
        With a JSON pointer to the place: no JSON, another format version, a wrong type, an
        index out of range, or a bound of this module exceeded.
    """
    document = _parsed(text, bounded=bounded)
    expect(isinstance(document, dict), "", "an object")
    expect(document.get("format") == FORMAT_VERSION, "/format", f"the number {FORMAT_VERSION}")
    unknown = sorted(set(document) - {"format", "nodes", "source", "tensors"})
    if unknown:
        raise wrong(f"/{unknown[0]}", "no such field")
    nodes = _list_of(document, "nodes", MAX_NODES if bounded else sys.maxsize)
    tensors = _list_of(document, "tensors", MAX_TENSORS if bounded else sys.maxsize)
    source = document.get("source", {})
    texts = isinstance(source, dict) and all(isinstance(v, str) for v in source.values())
    expect(texts, "/source", "an object of texts")
    return Graph(nodes=read_nodes(nodes), tensors=read_tensors(tensors), source=source)


def is_readable(graph: Graph, canonical: bytes) -> bool:
    """Return whether :func:`from_json` is sure to take what a graph was written as.

    For graphs that were captured, whose attributes are what a graph can hold. It looks at the
    bounds alone and may refuse a graph that lies just within them.
    """
    shapes = [graph.tensors[index].shape for index in graph.kinds.first_tensors]
    return (
        # Every value takes a byte at least.
        len(canonical) <= MAX_TOKENS
        and len(graph.nodes) <= MAX_NODES
        and len(graph.tensors) <= MAX_TENSORS
        and all(len(s) <= MAX_RANK and math.prod(s) <= MAX_ELEMENTS for s in shapes)
        and all(0 <= tensor.storage <= MAX_ELEMENTS for tensor in graph.tensors)
        and all(0 < len(node.op) <= MAX_OP_LENGTH for node in graph.nodes)
    )


def _node_row(node: Node) -> list[Any]:
    attrs = {name: _encoded(value) for name, value in node.attrs.items()}
    return [node.op, node.phase.value, list(node.inputs), list(node.outputs), attrs, node.name]


def _encoded(value: AttrValue) -> Any:
    if isinstance(value, tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _parsed(text: bytes | str, *, bounded: bool) -> Any:
    try:
        raw = text.encode("utf-8") if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise InvalidGraphError(f"A graph must be UTF-8 text: {error}.") from error
    tokens = sum(raw.count(mark) for mark in (b",", b"[", b"{"))
    digits = raw.translate(_TO_ZERO)
    too_large = bounded and (len(raw) > MAX_BYTES or tokens > MAX_TOKENS)
    if too_large or _LONG_NUMBER in digits:
        raise InvalidGraphError(
            f"The graph is too large: {len(raw)} bytes with {tokens} values; at most {MAX_BYTES} "
            f"bytes, {MAX_TOKENS} values and numbers of fewer than 400 digits are read."
        )
    if _WIDE_NUMBER not in digits:
        # What it refuses, the other reader may take; or it says what is wrong.
        with suppress(ValueError):
            return orjson.loads(raw)
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidGraphError(f"The graph is no JSON that can be read: {error}.") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _list_of(document: dict[str, Any], key: str, limit: int) -> list[Any]:
    rows = document.get(key)
    if not isinstance(rows, list) or len(rows) > limit:
        raise wrong(f"/{key}", f"an array of at most {limit} items")
    return rows

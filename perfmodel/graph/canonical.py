"""Canonical JSON of a graph, and the hash of what it computes.

The JSON keeps order and names, so that people can read a graph back; the hash forgets them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from perfmodel.errors import InvalidGraphError
from perfmodel.graph.ir import AttrValue, Graph, Node, Tensor
from perfmodel.graph.merkle import merkle_digest
from perfmodel.types import Phase, Role

FORMAT_VERSION = 1

#: Bounds on what is accepted, so that a hostile file costs little time and memory.
MAX_BYTES = 64 << 20
MAX_TOKENS = 2_000_000
MAX_NODES = 120_000
MAX_TENSORS = 200_000
MAX_RANK = 64
MAX_ELEMENTS = 1 << 60
MAX_ATTR_DEPTH = 8

_NONFINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
#: Digits in a row that no number that is read has; told by looking for as many zeros where every
#: digit is put to zero, which takes a tenth of the time of a regular expression.
_LONG_NUMBER = b"0" * 400
_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


def to_json(graph: Graph) -> bytes:
    """Write a graph as canonical JSON: sorted keys, no spaces, ASCII.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    bytes
        The same bytes for the same graph on every machine; read back by :func:`from_json`.
    """
    document = {
        "format": FORMAT_VERSION,
        "nodes": [(n.op, n.phase, n.inputs, n.outputs, dict(n.attrs), n.name) for n in graph.nodes],
        "source": dict(graph.source),
        "tensors": [(t.shape, t.dtype, t.role, t.storage) for t in graph.tensors],
    }
    try:
        return _written(document)
    except ValueError:
        # JSON has no word for infinity; few graphs have one, so that only those are gone through.
        document["nodes"] = [_node_row(node) for node in graph.nodes]
        return _written(document)


def _written(document: dict[str, Any]) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def from_json(text: bytes | str) -> Graph:
    """Read a graph from canonical JSON.

    Parameters
    ----------
    text : bytes or str
        As written by :func:`to_json`; may come from anybody.

    Returns
    -------
    Graph

    Raises
    ------
    InvalidGraphError
        With a JSON pointer to the place: no JSON, another format version, a wrong type, an
        index out of range, or a bound of this module exceeded.
    """
    document = _parsed(text)
    _expect(isinstance(document, dict), "", "an object")
    _expect(document.get("format") == FORMAT_VERSION, "/format", f"the number {FORMAT_VERSION}")
    unknown = sorted(set(document) - {"format", "nodes", "source", "tensors"})
    if unknown:
        raise _wrong(f"/{unknown[0]}", "no such field")
    nodes = _list_of(document, "nodes", MAX_NODES)
    tensors = _list_of(document, "tensors", MAX_TENSORS)
    source = document.get("source", {})
    texts = isinstance(source, dict) and all(isinstance(v, str) for v in source.values())
    _expect(texts, "/source", "an object of texts")
    return Graph(
        nodes=tuple(_node(row, position) for position, row in enumerate(nodes)),
        tensors=tuple(_tensor(row, position) for position, row in enumerate(tensors)),
        source=source,
    )


def content_hash(graph: Graph) -> str:
    """Hash what a graph computes.

    Names, source, numbering of tensors and storages, and the order of independent nodes do not
    matter; operators, attributes, phases, shapes, dtypes, roles and edges do.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    return blake2b(merkle_digest(graph), digest_size=16, person=b"graph-1").hexdigest()


def _node_row(node: Node) -> list[Any]:
    attrs = {name: _encoded(value) for name, value in node.attrs.items()}
    return [node.op, node.phase.value, list(node.inputs), list(node.outputs), attrs, node.name]


def _encoded(value: AttrValue) -> Any:
    if isinstance(value, tuple):
        return [_encoded(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _parsed(text: bytes | str) -> Any:
    try:
        raw = text.encode("utf-8") if isinstance(text, str) else text
    except UnicodeEncodeError as error:
        raise InvalidGraphError(f"A graph must be UTF-8 text: {error}.") from error
    tokens = sum(raw.count(mark) for mark in (b",", b"[", b"{"))
    if len(raw) > MAX_BYTES or tokens > MAX_TOKENS or _LONG_NUMBER in raw.translate(_TO_ZERO):
        raise InvalidGraphError(
            f"The graph is too large: {len(raw)} bytes with {tokens} values; at most {MAX_BYTES} "
            f"bytes, {MAX_TOKENS} values and numbers of fewer than 400 digits are read."
        )
    try:
        return json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidGraphError(f"The graph is no JSON that can be read: {error}.") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _list_of(document: dict[str, Any], key: str, limit: int) -> list[Any]:
    rows = document.get(key)
    if not isinstance(rows, list) or len(rows) > limit:
        raise _wrong(f"/{key}", f"an array of at most {limit} items")
    return rows


def _node(row: Any, position: int) -> Node:
    # Nearly every row is as it should be; where one is wrong is worked out for those alone.
    if type(row) is list and len(row) == 6:
        op, phase, inputs, outputs, attrs, name = row
        if (
            type(op) is str
            and 0 < len(op) <= 200
            and type(phase) is str
            and phase in _PHASES
            and type(attrs) is dict
            and type(name) is str
            and _are_indices(inputs)
            and _are_indices(outputs)
        ):
            return Node(
                op=op,
                phase=_PHASES[phase],
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                attrs=_attrs(attrs, position) if attrs else attrs,
                name=name,
            )
    return _checked_node(row, position)


def _checked_node(row: Any, position: int) -> Node:
    here = f"/nodes/{position}"
    if not isinstance(row, list) or len(row) != 6:
        raise _wrong(here, "[op, phase, inputs, outputs, attrs, name]")
    op, phase, inputs, outputs, attrs, name = row
    _expect(isinstance(op, str) and 0 < len(op) <= 200, f"{here}/0", "a text of 1 to 200 letters")
    _expect(isinstance(phase, str) and phase in _PHASES, f"{here}/1", f"one of {list(_PHASES)}")
    _expect(isinstance(attrs, dict), f"{here}/4", "an object")
    _expect(isinstance(name, str), f"{here}/5", "a text")
    return Node(
        op=op,
        phase=_PHASES[phase],
        inputs=_indices(inputs, f"{here}/2"),
        outputs=_indices(outputs, f"{here}/3"),
        attrs=_attrs(attrs, position),
        name=name,
    )


def _attrs(attrs: dict[str, Any], position: int) -> dict[str, AttrValue]:
    decoded: dict[str, AttrValue] = {}
    for key, value in attrs.items():
        kind = type(value)
        if kind is int or kind is bool or kind is str:
            decoded[key] = value
        elif kind is list and all([type(item) is int for item in value]):
            decoded[key] = tuple(value)
        else:
            decoded[key] = _decoded(value, f"/nodes/{position}/4/{key}", 0)
    return decoded


def _tensor(row: Any, position: int) -> Tensor:
    # Nearly every row is as it should be; where one is wrong is worked out for those alone.
    if type(row) is list and len(row) == 4:
        shape, dtype, role, storage = row
        if (
            type(shape) is list
            and len(shape) <= MAX_RANK
            and all([type(extent) is int and 0 <= extent <= MAX_ELEMENTS for extent in shape])
            and math.prod(shape) <= MAX_ELEMENTS
            and type(dtype) is str
            and type(role) is str
            and role in _ROLES
            and type(storage) is int
            and 0 <= storage <= MAX_ELEMENTS
        ):
            return Tensor(shape=tuple(shape), dtype=dtype, role=_ROLES[role], storage=storage)
    return _checked_tensor(row, position)


def _checked_tensor(row: Any, position: int) -> Tensor:
    here = f"/tensors/{position}"
    if not isinstance(row, list) or len(row) != 4:
        raise _wrong(here, "[shape, dtype, role, storage]")
    shape, dtype, role, storage = row
    extents = _indices(shape, f"{here}/0")
    _expect(len(extents) <= MAX_RANK, f"{here}/0", f"at most {MAX_RANK} extents")
    _expect(math.prod(extents) <= MAX_ELEMENTS, f"{here}/0", f"at most {MAX_ELEMENTS} elements")
    _expect(isinstance(dtype, str), f"{here}/1", "a text")
    _expect(isinstance(role, str) and role in _ROLES, f"{here}/2", f"one of {list(_ROLES)}")
    _expect(_is_index(storage), f"{here}/3", "an integer from 0 to 2^60")
    return Tensor(shape=extents, dtype=dtype, role=_ROLES[role], storage=storage)


_PHASES: Mapping[str, Phase] = {phase.value: phase for phase in Phase}
_ROLES: Mapping[str, Role] = {role.value: role for role in Role}


def _indices(value: Any, here: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all([_is_index(item) for item in value]):
        raise _wrong(here, "an array of integers from 0 to 2^60")
    return tuple(value)


def _are_indices(value: Any) -> bool:
    return type(value) is list and all(
        [type(item) is int and 0 <= item <= MAX_ELEMENTS for item in value]
    )


def _is_index(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_ELEMENTS


def _decoded(value: Any, here: str, depth: int) -> AttrValue:
    if isinstance(value, list) and depth < MAX_ATTR_DEPTH:
        return tuple(_decoded(item, here, depth + 1) for item in value)
    if isinstance(value, dict) and list(value) == ["float"]:
        text = value["float"]
        if isinstance(text, str) and text in _NONFINITE:
            return _NONFINITE[text]
    elif isinstance(value, float):
        _expect(math.isfinite(value), here, "a finite number")
        return value
    elif value is None or isinstance(value, (bool, int, str)):
        return value
    raise _wrong(here, f"a number, text, null or arrays of them, {MAX_ATTR_DEPTH} deep at most")


def _expect(holds: bool, pointer: str, wanted: str) -> None:
    if not holds:
        raise _wrong(pointer, wanted)


def _wrong(pointer: str, wanted: str) -> InvalidGraphError:
    return InvalidGraphError(
        f"The graph is not canonical at {pointer or 'its top'}: expected {wanted}.",
        pointer=pointer,
    )

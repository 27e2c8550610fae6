"""Graphs by rule as few bytes: what repeats in a deep network is written so that it looks alike.

Layers of a network differ in the positions of their tensors. Written as distances to where they
are read, those of one layer are the digits of every other one, and a compressor takes them for one.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import orjson

from perfmodel.errors import DamagedArtifactError
from perfmodel.graph.by_rule.ruled_graph import CallKind, RuledGraph, TensorKind
from perfmodel.graph.by_rule.rules import Rule, Template
from perfmodel.types import Phase, Role

#: Distances up to this are told from where a tensor is read; others from the one that was last far.
_NEAR = 40
_LENGTH_BYTES = 8
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": 2, "pb": 2}]
#: Nothing that is packed is larger when unpacked.
_LARGEST_BYTES = 1 << 28

Column = list[int]


def pack(graphs: Sequence[RuledGraph]) -> bytes:
    """Write some graphs together; the more alike they are, the less they take.

    Returns
    -------
    bytes
        Read back by :func:`unpack`; the same bytes for the same graphs.
    """
    written = [_written(graph) for graph in graphs]
    columns = [columns for _, columns in written]
    rows = [
        {**head, "lengths": [len(column) for column in own]}
        for (head, _), own in zip(written, columns, strict=True)
    ]
    header = orjson.dumps(rows, option=orjson.OPT_SORT_KEYS)
    header += b" " * (-len(header) % _LENGTH_BYTES)
    # Columns of one sort lie together: those of graphs that are alike are alike.
    ordered = chain.from_iterable(zip(*columns, strict=True))
    numbers = np.fromiter(chain.from_iterable(ordered), dtype="<i4").tobytes()
    content = len(header).to_bytes(_LENGTH_BYTES, "little") + header + numbers
    return lzma.compress(content, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=_FILTERS)


def unpack(content: bytes) -> list[RuledGraph]:
    """Read what :func:`pack` wrote.

    Raises
    ------
    DamagedArtifactError
        It is damaged.
    """
    try:
        raw = lzma.LZMADecompressor().decompress(content, _LARGEST_BYTES)
        size = int.from_bytes(raw[:_LENGTH_BYTES], "little")
        rows = orjson.loads(raw[_LENGTH_BYTES : _LENGTH_BYTES + size])
        numbers = np.frombuffer(raw, dtype="<i4", offset=_LENGTH_BYTES + size).astype(np.int64)
        lengths = list(chain.from_iterable(zip(*(row["lengths"] for row in rows), strict=True)))
        ends = [0, *accumulate(lengths)]
        columns = [numbers[begin:end] for begin, end in pairwise(ends)]
        count = len(rows)
        return [_read(row, columns[place::count]) for place, row in enumerate(rows)]
    except (lzma.LZMAError, ValueError, KeyError, IndexError, TypeError) as error:
        raise DamagedArtifactError(f"Packed graphs cannot be read: {error}.") from error


def _written(graph: RuledGraph) -> tuple[dict[str, Any], list[Column]]:
    names = list(dict.fromkeys(graph.names))
    place = {name: number for number, name in enumerate(names)}
    made = {index for outputs in graph.outputs for index in outputs}
    bases = _bases(graph.outputs)
    head = {
        "degrees": graph.degrees,
        "tensor_kinds": [(_plain(k.shape), k.dtype, k.role) for k in graph.tensor_kinds],
        "call_kinds": [
            (k.op, k.phase, {n: _plain(v) for n, v in k.attrs.items()}) for k in graph.call_kinds
        ],
        "names": names,
        "source": dict(graph.source),
    }
    columns = [
        list(graph.tensors),
        _near_or_far(graph.storages, list(accumulate((-1, *graph.storages), max))[:-1], set()),
        list(graph.calls),
        [len(outputs) for outputs in graph.outputs],
        _changes(list(chain.from_iterable(graph.outputs))),
        [len(read) for read in graph.inputs],
        _near_or_far(
            list(chain.from_iterable(graph.inputs)),
            [base for base, read in zip(bases, graph.inputs, strict=True) for _ in read],
            made,
        ),
        _changes([place[name] for name in graph.names]),
    ]
    return head, columns


def _read(row: Mapping[str, Any], columns: Sequence[np.ndarray[Any, Any]]) -> RuledGraph:
    tensors, storages, calls, made, outputs, taken, inputs, names = columns
    all_outputs = _cut(np.cumsum(outputs), made)
    bases = np.repeat(np.array(_bases(all_outputs), dtype=np.int64), taken)
    texts = row["names"]
    return RuledGraph(
        degrees=tuple(row["degrees"]),
        tensor_kinds=[TensorKind(_meant(s), d, Role(r)) for s, d, r in row["tensor_kinds"]],
        call_kinds=[
            CallKind(op, Phase(phase), {name: _meant(value) for name, value in attrs.items()})
            for op, phase, attrs in row["call_kinds"]
        ],
        tensors=tensors.tolist(),
        storages=_storages(storages),
        calls=calls.tolist(),
        inputs=_cut(_positions(inputs, bases), taken),
        outputs=all_outputs,
        names=[texts[number] for number in np.cumsum(names).tolist()],
        source=row["source"],
    )


def _bases(outputs: Iterable[tuple[int, ...]]) -> Column:
    """Return for each node the first tensor that it makes, or what the last one before it did."""
    base, found = 0, []
    for made in outputs:
        base = made[0] if made else base
        found.append(base)
    return found


def _near_or_far(values: Sequence[int], bases: Sequence[int], made: set[int]) -> Column:
    """Write positions by their distance to a base, or to the last far one of their sort.

    Tensors that nodes made are one sort, and those that a step is given another: a backward pass
    goes through both, each in its own direction.
    """
    last, found = [0, 0], []
    for value, base in zip(values, bases, strict=True):
        if abs(base - value) <= _NEAR:
            found.append(3 * _folded(base - value))
            continue
        sort = int(value in made)
        found.append(3 * _folded(value - last[sort]) + 1 + sort)
        last[sort] = value
    return found


def _positions(written: np.ndarray[Any, Any], bases: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Read positions that :func:`_near_or_far` wrote."""
    sort, moves = written % 3, _unfolded(written // 3)
    found: np.ndarray[Any, Any] = bases - moves
    for far in (1, 2):
        of_sort = sort == far
        found[of_sort] = np.cumsum(moves[of_sort])
    return found


def _storages(written: np.ndarray[Any, Any]) -> Column:
    """Read storages: their base is the largest so far, which only they themselves tell."""
    last, largest, found = 0, -1, []
    for near, move in zip(
        (written % 3 == 0).tolist(), _unfolded(written // 3).tolist(), strict=True
    ):
        value = largest - move if near else last + move
        last = last if near else value
        largest = max(largest, value)
        found.append(value)
    return found


def _changes(values: Sequence[int]) -> Column:
    return [value - before for before, value in pairwise((0, *values))]


def _cut(values: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> list[tuple[int, ...]]:
    plain, ends = values.tolist(), [0, *np.cumsum(lengths).tolist()]
    return [tuple(plain[begin:end]) for begin, end in pairwise(ends)]


def _folded(value: int) -> int:
    """Return a number without a sign: 0, -1, 1, -2 are 0, 1, 2, 3."""
    return 2 * value if value >= 0 else -2 * value - 1


def _unfolded(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(np.where(values % 2 == 0, values // 2, -(values + 1) // 2))


def _plain(value: Template) -> Any:
    """Return a template as JSON has it; what JSON lacks is an object."""
    if isinstance(value, Rule):
        return {"float" if value.is_float else "whole": value.coefficients}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"number": repr(value)}
    return value


def _meant(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_meant(part) for part in value])
    if not isinstance(value, dict):
        return value
    ((word, content),) = value.items()
    return float(content) if word == "number" else Rule(tuple(content), word == "float")

"""Rows of the canonical form of a graph, read and checked.

Nearly every row of nearly every graph is as it should be. They are looked at as columns, which
takes half the time; where something is wrong is worked out row by row, for those graphs alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain
from sys import intern
from typing import Any

from perfmodel.errors import InvalidGraphError
from perfmodel.graph.node import AttrValue, Node, Tensor, make_node, make_tensor
from perfmodel.types import Phase, Role

MAX_RANK = 64
MAX_ELEMENTS = 1 << 60
MAX_ATTR_DEPTH = 8
MAX_OP_LENGTH = 200

_NONFINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_PHASES: Mapping[str, Phase] = {phase.value: phase for phase in Phase}
_ROLES: Mapping[str, Role] = {role.value: role for role in Role}


def read_nodes(rows: list[Any]) -> tuple[Node, ...]:
    """Read ``[op, phase, inputs, outputs, attrs, name]`` of every node."""
    columns = _columns(rows, (str, str, list, list, dict, str))
    if columns is not None:
        ops, phases, inputs, outputs, attrs, names = columns
        if (
            _PHASES.keys() >= set(phases)
            and all(0 < len(op) <= MAX_OP_LENGTH for op in set(ops))
            and _all_indices(chain.from_iterable(inputs))
            and _all_indices(chain.from_iterable(outputs))
        ):
            for position, found in enumerate(attrs):
                if found:
                    _decode(found, position)
            return tuple(
                map(
                    make_node,
                    map(intern, ops),
                    map(_PHASES.__getitem__, phases),
                    map(tuple, inputs),
                    map(tuple, outputs),
                    attrs,
                    map(intern, names),
                )
            )
    return tuple([_node(row, position) for position, row in enumerate(rows)])


def read_tensors(rows: list[Any]) -> tuple[Tensor, ...]:
    """Read ``[shape, dtype, role, storage]`` of every tensor."""
    columns = _columns(rows, (list, str, str, int))
    if columns is not None:
        shapes, dtypes, roles, storages = columns
        if (
            _ROLES.keys() >= set(roles)
            and _all_indices(storages)
            and _all_indices(chain.from_iterable(shapes))
        ):
            # Equal shapes are one object: there are few of them.
            known: dict[tuple[int, ...], tuple[int, ...]] = {}
            kept = [known.setdefault(shape, shape) for shape in map(tuple, shapes)]
            if all(len(s) <= MAX_RANK and math.prod(s) <= MAX_ELEMENTS for s in known):
                types, meant = map(intern, dtypes), map(_ROLES.__getitem__, roles)
                return tuple(map(make_tensor, kept, types, meant, storages))
    return tuple([_tensor(row, position) for position, row in enumerate(rows)])


def expect(holds: bool, pointer: str, wanted: str) -> None:
    """Refuse a graph that does not hold what it should."""
    if not holds:
        raise wrong(pointer, wanted)


def wrong(pointer: str, wanted: str) -> InvalidGraphError:
    """Return the error for a graph that is not as it should be at some place."""
    return InvalidGraphError(
        f"The graph is not canonical at {pointer or 'its top'}: expected {wanted}.",
        pointer=pointer,
    )


def _columns(rows: list[Any], kinds: tuple[type, ...]) -> list[tuple[Any, ...]] | None:
    """Return the columns of rows that all have the same types; None where one has not."""
    if not rows or set(map(type, rows)) != {list} or set(map(len, rows)) != {len(kinds)}:
        return None
    columns = list(zip(*rows, strict=True))
    same = all(set(map(type, c)) == {kind} for c, kind in zip(columns, kinds, strict=True))
    return columns if same else None


def _all_indices(values: Iterable[Any]) -> bool:
    found = list(values)
    if not found:
        return True
    return set(map(type, found)) == {int} and min(found) >= 0 and max(found) <= MAX_ELEMENTS


def _node(row: Any, position: int) -> Node:
    here = f"/nodes/{position}"
    if not isinstance(row, list) or len(row) != 6:
        raise wrong(here, "[op, phase, inputs, outputs, attrs, name]")
    op, phase, inputs, outputs, attrs, name = row
    is_op = isinstance(op, str) and 0 < len(op) <= MAX_OP_LENGTH
    expect(is_op, f"{here}/0", f"a text of 1 to {MAX_OP_LENGTH} letters")
    expect(isinstance(phase, str) and phase in _PHASES, f"{here}/1", f"one of {list(_PHASES)}")
    expect(isinstance(attrs, dict), f"{here}/4", "an object")
    expect(isinstance(name, str), f"{here}/5", "a text")
    read = (_indices(inputs, f"{here}/2"), _indices(outputs, f"{here}/3"))
    _decode(attrs, position)
    return make_node(op, _PHASES[phase], *read, attrs, name)


def _tensor(row: Any, position: int) -> Tensor:
    here = f"/tensors/{position}"
    if not isinstance(row, list) or len(row) != 4:
        raise wrong(here, "[shape, dtype, role, storage]")
    shape, dtype, role, storage = row
    extents = _indices(shape, f"{here}/0")
    expect(len(extents) <= MAX_RANK, f"{here}/0", f"at most {MAX_RANK} extents")
    expect(math.prod(extents) <= MAX_ELEMENTS, f"{here}/0", f"at most {MAX_ELEMENTS} elements")
    expect(isinstance(dtype, str), f"{here}/1", "a text")
    expect(isinstance(role, str) and role in _ROLES, f"{here}/2", f"one of {list(_ROLES)}")
    expect(_is_index(storage), f"{here}/3", "an integer from 0 to 2^60")
    return make_tensor(extents, dtype, _ROLES[role], storage)


def _indices(value: Any, here: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not all([_is_index(item) for item in value]):
        raise wrong(here, "an array of integers from 0 to 2^60")
    return tuple(value)


def _is_index(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_ELEMENTS


def _decode(attrs: dict[str, Any], position: int) -> None:
    """Put what a graph holds in the place of what JSON has for it."""
    for key, value in attrs.items():
        kind = type(value)
        if kind is not int and kind is not bool and kind is not str:
            attrs[key] = _decoded(value, position, key, 0)


def _decoded(value: Any, position: int, key: str, depth: int) -> AttrValue:
    if isinstance(value, list) and depth < MAX_ATTR_DEPTH:
        if set(map(type, value)) == {int}:
            return tuple(value)
        return tuple([_decoded(item, position, key, depth + 1) for item in value])
    if isinstance(value, dict) and list(value) == ["float"]:
        text = value["float"]
        if isinstance(text, str) and text in _NONFINITE:
            return _NONFINITE[text]
    elif isinstance(value, float):
        expect(math.isfinite(value), f"/nodes/{position}/4/{key}", "a finite number")
        return value
    elif value is None or isinstance(value, (bool, int, str)):
        return value
    wanted = f"a number, text, null or arrays of them, {MAX_ATTR_DEPTH} deep at most"
    raise wrong(f"/nodes/{position}/4/{key}", wanted)

"""Read JSON into dataclasses, trusting nothing but names: fields that are new are passed over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

#: Turns a JSON value into what a field holds; raises :class:`MisfitError`.
Reader = Callable[[Any], Any]


class MisfitError(ValueError):
    """A JSON value that is not what was expected, with the way to it."""

    def under(self, part: str | int) -> MisfitError:
        """Return the same with one more step before it."""
        return MisfitError(f"/{part}{self}")


@lru_cache(maxsize=256)
def reader(kind: Any) -> Reader:
    """Return what reads a JSON value as a type.

    Parameters
    ----------
    kind : type
        A dataclass, ``float``, ``int``, ``str``, ``bool``, ``None``, ``Any``,
        ``tuple[<kind>, ...]``, ``Mapping[str, <kind>]``, a TypedDict (whose fields are not
        checked), or a union of such.

    Examples
    --------
    >>> reader(tuple[float, ...])([1, 2.5])
    (1.0, 2.5)
    >>> reader(int)("2")
    Traceback (most recent call last):
    ...
    perfmodel.client.protocol.decode.MisfitError: : no int but 'str'
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda value: value
    if is_dataclass(kind):
        return _record(kind)
    if origin in (Union, UnionType):
        return _either(tuple(reader(one) for one in inner))
    if origin is tuple:
        return _list(inner[0])
    if origin is Mapping or is_typeddict(kind):
        return _mapping(reader(inner[1] if inner else Any))
    return _leaf(kind)


def _record(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    known = [
        (
            field.name,
            reader(hints[field.name]),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    ]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise MisfitError(f": no object but {type(value).__name__!r}")
        found = {}
        for name, read_field, needed in known:
            if name in value:
                try:
                    found[name] = read_field(value[name])
                except MisfitError as error:
                    raise error.under(name) from None
            elif needed:
                raise MisfitError(f"/{name}: missing")
        return kind(**found)

    return read


def _either(readers: tuple[Reader, ...]) -> Reader:
    def read(value: Any) -> Any:
        misfits = []
        for one in readers:
            try:
                return one(value)
            except MisfitError as error:
                misfits.append(error)
        # Most unions are `X | None`; then the reason why it is no X says most.
        raise misfits[0]

    return read


def _list(kind: Any) -> Reader:
    read_one = reader(kind)
    plain = _plain_types(kind)

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise MisfitError(f": no list but {type(value).__name__!r}")
        # Columns of a matrix hold 100,000 numbers: one look at the types of all of them.
        if plain and plain.issuperset(map(type, value)):
            return tuple(value)
        found = []
        for position, one in enumerate(value):
            try:
                found.append(read_one(one))
            except MisfitError as error:
                raise error.under(position) from None
        return tuple(found)

    return read


def _plain_types(kind: Any) -> frozenset[type]:
    """Return the types that pass as they are; JSON that was read has no NaN and no infinity."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    leaves = {float, int, str, bool, NoneType}
    return frozenset(kinds) if leaves.issuperset(kinds) else frozenset()


def _mapping(read_one: Reader) -> Reader:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise MisfitError(f": no object but {type(value).__name__!r}")
        found = {}
        for name, one in value.items():
            try:
                found[name] = read_one(one)
            except MisfitError as error:
                raise error.under(name) from None
        return found

    return read


def _leaf(kind: Any) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is kind and not (kind is float and not math.isfinite(value)):
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise MisfitError(f": no {kind.__name__} but {type(value).__name__!r}")

    return read

"""Records as rows: what a dataclass holds in the columns that bear the names of its fields.

Words of enumerations stand as they are, and mappings and tuples as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import orjson
from sqlalchemy import Row

Record = TypeVar("Record")


def record_from(kind: type[Record], row: Row[Any], **stated: Any) -> Record:
    """Return a record from a row.

    Parameters
    ----------
    **stated
        Fields of which the row has no column, or another one.
    """
    plain, readers = _readers(cast("Any", kind))
    found = {name: getattr(row, name) for name in plain if name not in stated}
    for name, read in readers:
        if name not in stated:
            value = getattr(row, name)
            found[name] = None if value is None else read(value)
    return kind(**found, **stated)


def row_of(record: Any) -> dict[str, Any]:
    """Return a record as the columns of its row."""
    return {one.name: as_column(getattr(record, one.name)) for one in fields(record)}


def as_column(value: Any) -> Any:
    """Return a value as it stands in its column."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        value = dict(value)
    return orjson.dumps(value).decode() if isinstance(value, dict | tuple) else value


@cache
def _readers(kind: Any) -> tuple[list[str], list[tuple[str, Callable[[Any], Any]]]]:
    """Return the fields whose columns are as they are, and what reads those of the others."""
    hints = get_type_hints(kind)
    found = {one.name: _reader(hints[one.name]) for one in fields(kind)}
    plain = [name for name, read in found.items() if read is None]
    return plain, [(name, read) for name, read in found.items() if read is not None]


def _reader(hint: Any) -> Callable[[Any], Any] | None:
    """Return what reads a column of a type, or of a type or nothing; None where it is as it is."""
    if get_origin(hint) is Mapping:
        return orjson.loads
    if get_origin(hint) is tuple:
        return partial(_read_tuple, get_args(hint)[0])
    if get_args(hint):
        return _reader(get_args(hint)[0])
    return hint if issubclass(hint, StrEnum) else None


def _read_tuple(kind: Any, text: str) -> tuple[Any, ...]:
    is_record = is_dataclass(kind)
    return tuple(kind(**one) if is_record else one for one in orjson.loads(text))

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
    found, of = dict(stated), cast("Any", kind)
    for name, read in _readers(of):
        if name not in found:
            value = getattr(row, name)
            found[name] = value if read is None or value is None else read(value)
    return kind(**found)


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
def _readers(kind: Any) -> list[tuple[str, Callable[[Any], Any] | None]]:
    hints = get_type_hints(kind)
    return [(one.name, _reader(hints[one.name])) for one in fields(kind)]


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

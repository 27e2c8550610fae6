"""What every store of the database begins with: transactions, pages, revisions, records as rows.

Revisions count changes, by which copies in memory are known to be old; watches follow them. A
record is what a dataclass holds in the columns that bear the names of its fields: words of
enumerations stand as they are, and mappings and tuples as JSON.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, Generic, TypeVar, cast, final, get_args, get_origin, get_type_hints

import orjson
from sqlalchemy import Column, Connection, Executable, Row, Select, Table, select
from sqlalchemy.dialects import postgresql, sqlite

from perfmodel.errors import InvalidInputError
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.polling import PollingThread
from perfmodel.store.sql.tables import REVISIONS


def raise_revision(connection: Connection, name: str) -> int:
    """Count a change.

    Until the transaction ends no other can count one of that name, so that revisions are in the
    order in which changes become visible.

    Returns
    -------
    int
        The revision of this transaction, >= 1.
    """
    counted = (
        insert_into(connection, REVISIONS)
        .values(name=name, value=1)
        .on_conflict_do_update(index_elements=["name"], set_={"value": REVISIONS.c.value + 1})
        .returning(REVISIONS.c.value)
    )
    return int(connection.execute(counted).scalar_one())


def read_revisions(connection: Connection) -> dict[str, int]:
    """Return how often each thing was changed; what never was is not named."""
    return {row.name: int(row.value) for row in connection.execute(select(REVISIONS))}


@final
class RevisionWatch(PollingThread):
    """Looks at the counters of changes from time to time and tells who wants to know."""

    def __init__(self, connections: Connections, *, poll_s: float = 0.5) -> None:
        super().__init__("revisions", every_s=poll_s, complaint="changes by others cannot be seen")
        self._connections = connections
        self._listeners: dict[str, list[Callable[[], object]]] = {}
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    def on_change(self, name: str, tell: Callable[[], object]) -> None:
        """Call somebody, in the thread that looks, after something was changed.

        Whether it was changed since the process began is not known at first, so that the first
        look tells everybody.

        Parameters
        ----------
        tell : callable
            If it raises :class:`~perfmodel.errors.StoreError` it is told again.
        """
        self._listeners.setdefault(name, []).append(tell)

    def poll(self) -> None:
        """Look now, and tell who is to be told."""
        with self._lock:
            with self._connections.reading() as connection:
                found = read_revisions(connection)
            for name, listeners in list(self._listeners.items()):
                newest = found.get(name, 0)
                if self._seen.get(name) != newest:
                    for tell in listeners:
                        tell()
                    self._seen[name] = newest


Item = TypeVar("Item")

#: Most items of one page.
MOST_ITEMS = 1_000

_PREFIX = "before-"


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Some items of a list, newest first.

    Parameters
    ----------
    next_cursor : str or None
        Asks for the items after these; None where there are no more. Items that are added
        meanwhile shift nothing.
    """

    items: tuple[Item, ...]
    next_cursor: str | None = None


def write_cursor(row_number: int) -> str:
    """Return the cursor that asks for the rows before one.

    Examples
    --------
    >>> read_cursor(write_cursor(12))
    12
    """
    return f"{_PREFIX}{row_number:x}"


def read_cursor(cursor: str | None) -> int | None:
    """Return the number of the row that a cursor asks for the rows before.

    Parameters
    ----------
    cursor : str or None
        None asks for the first page.

    Raises
    ------
    InvalidInputError
        Not a cursor of ours.
    """
    if cursor is None:
        return None
    digits = cursor.removeprefix(_PREFIX)
    try:
        if digits == cursor or not 0 < len(digits) <= 15:
            raise ValueError(cursor)
        return int(digits, 16)
    except ValueError as error:
        raise InvalidInputError(
            f"The cursor {cursor[:60]!r} is none. Send the next_cursor of a page as it came, or "
            "none for the first.",
            pointer="/query/cursor",
        ) from error


class SharedStore:
    """Reads and writes some tables; may be shared by threads and processes.

    Parameters
    ----------
    connections : Connections
        To a database of the newest schema.

    Raises
    ------
    StoreError
        In every method: the database cannot be read or written.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def _rows(self, query: Executable) -> Sequence[Any]:
        """Return all that a query finds."""
        with self._connections.reading() as connection:
            return connection.execute(query).all()

    def _column(self, query: Executable) -> list[Any]:
        """Return the first column of all that a query finds."""
        return [row[0] for row in self._rows(query)]

    def _has(self, query: Select[Any]) -> bool:
        """Tell whether a query finds anything."""
        return bool(self._rows(query.limit(1)))

    def _write(self, statement: Executable) -> int:
        """Write in a transaction of its own; return how many rows that changed."""
        with self._connections.writing() as connection:
            return int(connection.execute(statement).rowcount)

    @contextmanager
    def _changing(self, name: str) -> Iterator[Connection]:
        """Open a transaction that counts a change, see :func:`raise_revision`."""
        with self._connections.writing() as connection:
            raise_revision(connection, name)
            yield connection

    def _find(self, query: Select[Any], read: Callable[[Row[Any]], Item]) -> Item | None:
        """Return the one thing that a query finds, or None."""
        rows = self._rows(query)
        return read(rows[0]) if rows else None

    def _page(
        self,
        query: Select[Any],
        number: Column[Any],
        read: Callable[[Row[Any]], Item],
        *,
        cursor: str | None,
        limit: int,
    ) -> Page[Item]:
        """Return what a query finds after the page of a cursor, the highest number first."""
        query = query.order_by(number.desc()).limit(limit + 1)
        before = read_cursor(cursor)
        if before is not None:
            query = query.where(number < before)
        rows = self._rows(query)
        return Page(
            items=tuple(read(row) for row in rows[:limit]),
            next_cursor=write_cursor(getattr(rows[limit - 1], number.name))
            if len(rows) > limit
            else None,
        )


def put_row(connection: Connection, table: Table, key: str, values: Mapping[str, Any]) -> None:
    """Keep a row, in the place of the one of the same key."""
    others = {name: value for name, value in values.items() if name != key}
    statement = insert_into(connection, table).values(**values)
    connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=others))


def insert_new(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *key: str
) -> list[tuple[Any, ...]]:
    """Insert the rows whose key no row has yet; return their keys."""
    if not rows:
        return []
    inserted = insert_into(connection, table).on_conflict_do_nothing(index_elements=key)
    statement = inserted.returning(*[table.c[name] for name in key])
    return [tuple(row) for row in connection.execute(statement, rows)]


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that may say what happens to a row that is there already."""
    into = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return into(table)


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

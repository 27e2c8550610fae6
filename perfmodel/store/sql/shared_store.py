"""What every store of the database begins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Row, Select, Table
from sqlalchemy.dialects import postgresql, sqlite

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.pages import Page, read_cursor, write_cursor

Item = TypeVar("Item")


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
        with self._connections.reading() as connection:
            rows: Sequence[Row[Any]] = connection.execute(query).all()
        return Page(
            items=tuple(read(row) for row in rows[:limit]),
            next_cursor=write_cursor(getattr(rows[limit - 1], number.name))
            if len(rows) > limit
            else None,
        )


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that may say what happens to a row that is there already."""
    into = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return into(table)

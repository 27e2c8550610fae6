"""A SQLite file from elsewhere, read and nothing else.

What a file can do to its reader is taken from it: views, triggers, virtual tables, functions and
extensions are never run, no value is computed or longer than 128 KiB, and reading ends when it
takes too long for the size of the file.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perfmodel.errors import InvalidTraceError

#: What a file begins with that is a database.
MAGIC = b"SQLite format 3\x00"
_LONGEST_BYTES = 2**17
#: CPU time for any file, and more for each byte of it.
_BASE_S = 1.0
_S_PER_BYTE = 0.5 / 2**20
_STEPS_BETWEEN_CHECKS = 100_000
_ROWS = 500
#: Virtual tables, and computed columns.
_COMPUTING = re.compile(r"^\s*CREATE\s+VIRTUAL|\bAS\s*\(|\bGENERATED\b", re.IGNORECASE)
#: Of a definition what SQLite takes for a text or a name in quotes, or for a comment.
_QUOTED = re.compile(
    r"""'(?:[^']|'')*+'|"(?:[^"]|"")*+"|`(?:[^`]|``)*+`|\[[^\]]*+\]|--[^\n]*+|/\*.*?(?:\*/|\Z)""",
    re.DOTALL,
)
_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
#: Messages about damaged schemas quote bytes that are no text.
_FAILURES = (sqlite3.Error, UnicodeDecodeError)


class ReadOnlyDatabase:
    """An open database.

    Raises
    ------
    InvalidTraceError
        It is none, or damaged; also while it is read.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True
            )
            self._guard(path.stat().st_size)
            listed = self._connection.execute(
                "SELECT type, name, sql FROM sqlite_master"
            ).fetchall()
        except (*_FAILURES, OSError) as error:
            raise self._damaged(error) from error
        self._columns: dict[str, frozenset[str]] = {}
        #: Tables that hold rows themselves.
        self.tables = frozenset(
            str(name)
            for kind, name, sql in listed
            if kind == "table" and _COMPUTING.search(_QUOTED.sub(" ", str(sql))) is None
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table; none where there is no such table."""
        if table not in self.tables:
            return frozenset()
        if table not in self._columns:
            try:
                found = self._connection.execute(f'SELECT * FROM "{table}" LIMIT 0').description
            except _FAILURES as error:
                raise self._damaged(error) from error
            self._columns[table] = frozenset(column[0] for column in found)
        return self._columns[table]

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield rows of a table; nothing where there is no such table, None for absent columns."""
        there = self.columns(table)
        if not there:
            return
        listed = ", ".join(f'"{column}"' if column in there else "NULL" for column in columns)
        try:
            cursor = self._connection.execute(f'SELECT {listed} FROM "{table}"')
            while rows := cursor.fetchmany(_ROWS):
                yield from rows
        except _FAILURES as error:
            raise self._damaged(error) from error

    def value(self, table: str, column: str, key: str, wanted: int) -> Any:
        """Return the value of a column in the row that has a key, or None."""
        if not {column, key} <= self.columns(table):
            return None
        query = f'SELECT "{column}" FROM "{table}" WHERE "{key}" = ?'
        try:
            found = self._connection.execute(query, (wanted,)).fetchone()
        except (*_FAILURES, OverflowError) as error:
            raise self._damaged(error) from error
        return None if found is None else found[0]

    def _guard(self, size_bytes: int) -> None:
        """Take from the file what it could do."""
        self._connection.text_factory = lambda text: text.decode(errors="replace")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_BYTES)
        self._connection.execute("PRAGMA trusted_schema = OFF")
        self._connection.execute("PRAGMA cell_size_check = ON")
        self._connection.set_authorizer(
            lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
        )
        allowed_s = _BASE_S + _S_PER_BYTE * size_bytes
        begun_s = time.thread_time()
        self._connection.set_progress_handler(
            lambda: int(time.thread_time() - begun_s > allowed_s), _STEPS_BETWEEN_CHECKS
        )

    def _damaged(self, error: Exception) -> InvalidTraceError:
        if "interrupted" in str(error):
            return InvalidTraceError(
                f"{self.name} takes longer to read than any database of its size does; export it "
                "again with `nsys export --type sqlite`."
            )
        return InvalidTraceError(
            f"{self.name} is no sound SQLite database: {error}. Export it again with "
            "`nsys export --type sqlite`."
        )

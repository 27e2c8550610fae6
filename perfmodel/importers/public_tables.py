"""Read the rows of a table, the fields of a row, checked, and the records that rows become."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from perfmodel.errors import MissingExtraError, StoreError, UnknownAcceleratorError
from perfmodel.importers.published import Origin, RejectedRow

#: A field is None where the table is empty.
Row = Mapping[str, Any]
Written = TypeVar("Written")
Made = TypeVar("Made")
#: Is given the names of the columns that are there, and returns those to be read.
Wanted = Callable[[Sequence[str]], Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicTable:
    """A table that somebody published: what it is called, what it has, and whose it is.

    Parameters
    ----------
    files : tuple of str
        Usual file names, best first; may contain ``*``.
    columns : tuple of str
        Those that it must have.
    optional : tuple of str or None
        Those that it may have; they are None where it does not, and all others stay unread. None:
        all are read.
    source, licence : str
        As of an :class:`~perfmodel.importers.published.Origin`.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    source: str
    licence: str
    optional: tuple[str, ...] | None = None

    def records(
        self,
        path: Path,
        make: Callable[[Row, Origin], Made],
        counts: Callable[[Row], bool] = lambda row: True,
    ) -> tuple[list[Made], tuple[RejectedRow, ...]]:
        """Turn the rows of the table, or of that of a folder, into records.

        Parameters
        ----------
        make : callable
            Row and its origin to record; raises with the reason.
        counts : callable
            Whether a row is looked at; the others are no part of what is read.

        Returns
        -------
        list
            Records, in the order of the table.
        tuple of RejectedRow
            Rows that were not understood; never guessed at.

        Raises
        ------
        StoreError
            No such file, or another table.
        """
        file = find_tables(path, self.files)[0]
        rows = (one for one in self.rows(file) if counts(one[1]))
        return self.understood(file.name, rows, make)

    def rows(self, file: Path) -> list[tuple[int, Row]]:
        """Read a table of this kind, see :func:`read_rows`."""
        return read_rows(file, self.columns, self.optional)

    def understood(
        self,
        file: str,
        rows: Iterable[tuple[int, Written]],
        make: Callable[[Written, Origin], Made],
    ) -> tuple[list[Made], tuple[RejectedRow, ...]]:
        """Turn numbered rows of a file into records, see :meth:`records`."""
        made: list[Made] = []
        rejected: list[RejectedRow] = []
        for line, row in rows:
            origin = Origin(source=self.source, licence=self.licence, file=file, line=line)
            try:
                made.append(make(row, origin))
            except (ValueError, KeyError, TypeError, UnknownAcceleratorError) as problem:
                rejected.append(RejectedRow(file=file, line=line, reason=str(problem)))
        return made, tuple(rejected)


def find_tables(path: Path, names: Sequence[str]) -> list[Path]:
    """Return table files: the path itself, or those in the folder that have one of the names.

    Parameters
    ----------
    names : sequence of str
        Usual file names, best first; may contain ``*``.

    Returns
    -------
    list of Path
        At least one, best first.

    Raises
    ------
    StoreError
        No such file.
    """
    if path.is_file():
        return [path]
    if found := [file for name in names for file in sorted(path.glob(name))]:
        return found
    wanted = " or ".join(names)
    raise StoreError(f"No {wanted} in {path}; name the table or the folder that holds it.")


def read_rows(
    file: Path, columns: Sequence[str], optional: Sequence[str] | None = None
) -> list[tuple[int, Row]]:
    """Read a CSV or Parquet table.

    Parameters
    ----------
    columns : sequence of str
        Those that it must have.
    optional : sequence of str or None
        As of a :class:`PublicTable`.

    Returns
    -------
    list of (int, mapping)
        Line (CSV, where the header is line 1) or row from 1 (Parquet), with its fields; an empty
        field is None.

    Raises
    ------
    MissingExtraError
        The library that reads Parquet is not installed.
    StoreError
        A file that cannot be read as such a table, or lacks a column.
    """

    def wanted(present: Sequence[str]) -> list[str]:
        if missing := [name for name in columns if name not in present]:
            lacks = ", ".join(missing)
            raise StoreError(f"{file} lacks the columns {lacks}; is it the right table?")
        if optional is None:
            return list(present)
        return [*columns, *(name for name in optional if name in present)]

    rows = (_read_parquet if file.suffix == ".parquet" else _read_csv)(file, wanted)
    if rows and (absent := {name: None for name in optional or () if name not in rows[0][1]}):
        return [(line, {**absent, **row}) for line, row in rows]
    return rows


def text(row: Row, name: str) -> str:
    """Return a field as text; ValueError where it is empty."""
    value = row.get(name)
    if value is None or str(value).strip() == "":
        raise ValueError(f"no {name}")
    return str(value).strip()


def positive(row: Row, name: str) -> float:
    """Return a field as a finite number above zero; ValueError otherwise."""
    try:
        value = float(text(row, name))
    except ValueError as error:
        raise ValueError(f"no {name}" if "no " in str(error) else f"{name} is no number") from error
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value:g}, no finite number above zero")
    return value


def count(row: Row, name: str) -> int:
    """Return a field as a whole number above zero; ValueError otherwise."""
    value = positive(row, name)
    if value != round(value):
        raise ValueError(f"{name} is not whole")
    return round(value)


def _read_csv(file: Path, wanted: Wanted) -> list[tuple[int, Row]]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as handle:
            reader = csv.DictReader(handle)
            rows = list(enumerate(reader, start=2))
            names = wanted(reader.fieldnames or ())
    except (UnicodeDecodeError, csv.Error) as error:
        raise StoreError(f"{file} is no CSV table: {error}") from error
    return [(line, {name: row[name] or None for name in names}) for line, row in rows]


def _read_parquet(file: Path, wanted: Wanted) -> list[tuple[int, Row]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Reading Parquet tables", extra="train") from error
    try:
        with pq.ParquetFile(file) as opened:
            names = list(wanted(opened.schema_arrow.names))
            table = opened.read(columns=names)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise StoreError(f"{file} is no Parquet table: {error}.") from error
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return [(line, dict(zip(names, row, strict=True))) for line, row in enumerate(rows, start=1)]

"""Read the rows of a table, the fields of a row, checked, and the records that rows become."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perfmodel.errors import MissingExtraError, StoreError, UnknownAcceleratorError
from perfmodel.importers.published import RejectedRow

#: A field is None where the table is empty.
Row = Mapping[str, Any]
Written = TypeVar("Written")
Made = TypeVar("Made")


def find_table(path: Path, names: Sequence[str]) -> Path:
    """Return a table file: the path itself, or the first known name in the folder.

    Parameters
    ----------
    names : sequence of str
        Usual file names, best first; may contain ``*``.

    Raises
    ------
    StoreError
        No such file.
    """
    if path.is_file():
        return path
    for name in names:
        if found := sorted(path.glob(name)):
            return found[0]
    wanted = " or ".join(names)
    raise StoreError(f"No {wanted} in {path}; name the table or the folder that holds it.")


def read_rows(file: Path, columns: Sequence[str]) -> list[tuple[int, Row]]:
    """Read a CSV or Parquet table.

    Returns
    -------
    list of (int, mapping)
        Line (CSV, where the header is line 1) or row from 1 (Parquet), with its fields; an empty
        field is None.

    Raises
    ------
    StoreError
        A file that cannot be read as such a table, or lacks a column.
    """
    rows, present = (_read_parquet if file.suffix == ".parquet" else _read_csv)(file)
    if missing := [name for name in columns if name not in present]:
        raise StoreError(f"{file} lacks the columns {', '.join(missing)}; is it the right table?")
    return rows


def understood(
    file: str,
    rows: Iterable[tuple[int, Written]],
    make: Callable[[Written, int], Made],
    rejected: list[RejectedRow],
) -> list[Made]:
    """Turn rows into records; keep the reasons of those that cannot be, never guess at them.

    Parameters
    ----------
    make : callable
        Row and line to record; raises with the reason.
    rejected : list of RejectedRow
        Gets the rows that were not understood.
    """
    made: list[Made] = []
    for line, row in rows:
        try:
            made.append(make(row, line))
        except (ValueError, KeyError, TypeError, UnknownAcceleratorError) as problem:
            rejected.append(RejectedRow(file=file, line=line, reason=str(problem)))
    return made


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
        raise ValueError(f"{name} is not above zero")
    return value


def count(row: Row, name: str) -> int:
    """Return a field as a whole number above zero; ValueError otherwise."""
    value = positive(row, name)
    if value != round(value):
        raise ValueError(f"{name} is not whole")
    return round(value)


def _read_csv(file: Path) -> tuple[list[tuple[int, Row]], list[str]]:
    rows: list[tuple[int, Row]] = []
    try:
        with file.open(newline="", encoding="utf-8") as handle:
            reader = csv.DictReader(handle)
            for line, row in enumerate(reader, start=2):
                rows.append((line, {key: value or None for key, value in row.items()}))
            return rows, list(reader.fieldnames or [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise StoreError(f"{file} is no CSV table: {error}") from error


def _read_parquet(file: Path) -> tuple[list[tuple[int, Row]], list[str]]:
    columns = read_columns(file)
    values = zip(*columns.values(), strict=True)
    rows: list[Row] = [dict(zip(columns, row, strict=True)) for row in values]
    return list(enumerate(rows, start=1)), list(columns)


def read_columns(
    file: Path, wanted: Callable[[list[str]], Sequence[str]] = tuple
) -> dict[str, list[Any]]:
    """Return columns of a Parquet table by their names, in the order they are wanted.

    Parameters
    ----------
    wanted : callable
        Is given the names of the columns that are there and returns those to be read; it may
        refuse the table. All are read without it.

    Raises
    ------
    MissingExtraError
        The library that reads Parquet is not installed.
    StoreError
        The file cannot be read as a Parquet table.
    """
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
    return {name: table[name].to_pylist() for name in names}

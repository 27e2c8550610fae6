"""Read the rows of a table, numbered, and the fields of a row, checked."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfmodel.errors import StoreError
from perfmodel.importers.parquet import read_columns

#: A field is None where the table is empty.
Row = Mapping[str, Any]


def find_table(path: Path, names: Sequence[str]) -> Path:
    """Return a table file: the path itself, or the first known name in the folder.

    Parameters
    ----------
    path : Path
        A file, or the folder that holds it.
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

    Parameters
    ----------
    file : Path
        ``.csv`` or ``.parquet``.
    columns : sequence of str
        Columns that must be there.

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

"""Read tidy Parquet files of kernels: one measurement a row, plain columns.

Readers of a row raise :class:`UnreadableRowError` or a plain conversion error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from perfmodel.errors import StoreError
from perfmodel.importers.public_tables import Made, Row, read_columns


class UnreadableRowError(ValueError):
    """A row that says something no reader understands."""


def tidy_files(path: Path, names: Sequence[str]) -> list[Path]:
    """Return the tidy files that a path means.

    Returns
    -------
    list of Path
        The path itself, or those of ``names`` that lie in the folder; at least one.

    Raises
    ------
    StoreError
        Nothing of the format is there.
    """
    if path.is_file():
        return [path]
    found = [path / name for name in names if (path / name).is_file()]
    if not found:
        raise StoreError(
            f"None of {', '.join(names)} lies in {path}; name one of the files or their folder."
        )
    return found


def table_rows(
    file: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[int, Row]]:
    """Yield the numbered rows of a Parquet file, holding only the columns asked for.

    Parameters
    ----------
    required, optional : sequence of str
        Columns; an optional one that is absent reads as None.

    Raises
    ------
    StoreError
        The file cannot be read or lacks a column.
    """

    def wanted(present: list[str]) -> list[str]:
        missing = [name for name in required if name not in present]
        if missing:
            raise StoreError(f"{file} has no column {', '.join(missing)}; is it another table?")
        return [*required, *(name for name in optional if name in present)]

    columns = read_columns(file, wanted)
    absent = {name: None for name in optional if name not in columns}
    for line, values in enumerate(zip(*columns.values(), strict=True), start=1):
        yield line, {**absent, **dict(zip(columns, values, strict=True))}


def positive(row: Row, column: str) -> float:
    """Return a number that must be there, finite and above zero."""
    value = row[column]
    if isinstance(value, str | bool) or value is None:
        raise UnreadableRowError(f"{column} is {value!r}, not a number")
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise UnreadableRowError(f"{column} is {number}, no positive number")
    return number


def word(row: Row, column: str, known: Mapping[str, Made]) -> Made:
    """Return what a word of a closed vocabulary stands for."""
    value = row[column]
    if value not in known:
        raise UnreadableRowError(
            f"{column} is {value!r}; understood are {', '.join(sorted(known))}"
        )
    return known[value]


def joined(*parts: object) -> str:
    """Return the parts that say something, with a space between."""
    return " ".join(str(part) for part in parts if part)

"""Read a tidy Parquet file row by row: what can be understood, and the reasons for the rest.

A tidy file has one measurement a row and plain columns. The row readers raise
:class:`UnreadableRowError` or a plain conversion error; both become a rejected row, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import StoreError, UnknownAcceleratorError
from perfmodel.importers.parquet import read_columns
from perfmodel.importers.published import Origin, RejectedRow

Row = Mapping[str, Any]
Made = TypeVar("Made")


class UnreadableRowError(ValueError):
    """A row that says something no reader understands."""


def tidy_files(path: Path, names: Sequence[str]) -> list[Path]:
    """Return the tidy files that a path means.

    Parameters
    ----------
    path : Path
        One of the files, or the folder that holds some of them.
    names : sequence of str
        File names that the format knows.

    Returns
    -------
    list of Path
        In the order of ``names``; at least one.

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


def table_rows(file: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the rows of a Parquet file, holding only the columns asked for.

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
    for values in zip(*columns.values(), strict=True):
        yield {**absent, **dict(zip(columns, values, strict=True))}


def read_rows(
    file: Path,
    rows: Iterator[Row],
    make: Callable[[Row, Origin], Made],
    origin: Callable[[str, int], Origin],
    rejected: list[RejectedRow],
) -> list[Made]:
    """Turn every row into a record; keep the reasons of those that cannot be.

    Parameters
    ----------
    make : callable
        Row and origin to record; raises ValueError, KeyError or TypeError with the reason.
    origin : callable
        File name and row number to origin.
    rejected : list of RejectedRow
        Gets the rows that were not understood.
    """
    made: list[Made] = []
    for line, row in enumerate(rows, start=1):
        try:
            made.append(make(row, origin(file.name, line)))
        except (ValueError, KeyError, TypeError) as problem:
            rejected.append(RejectedRow(file=file.name, line=line, reason=str(problem)))
        except UnknownAcceleratorError as problem:
            rejected.append(RejectedRow(file=file.name, line=line, reason=problem.message))
    return made


class DeviceNames:
    """Canonical names of the devices that a table names; each is looked up once.

    Parameters
    ----------
    catalog : Catalog or None
        The shipped one where None.
    """

    def __init__(self, catalog: Catalog | None = None) -> None:
        self._catalog = Catalog.default() if catalog is None else catalog
        self._known: dict[str, str] = {}

    def canonical(self, written: str) -> str:
        """Return the catalogue name; raises UnknownAcceleratorError as the catalogue does."""
        if written not in self._known:
            self._known[written] = self._catalog.canonical_name(written)
        return self._known[written]


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

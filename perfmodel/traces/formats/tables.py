"""CSV tables of profilers, row by row and within bounds."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.limits import TraceLimits

#: Tables with a column a counter have lines of 100 KB.
_LINE_BYTES = 2**20
#: Lines of one row: names of kernels hold no line breaks, broken quotes swallow the file.
_LINES_OF_A_ROW = 100
#: Tools print notices before the header.
_LINES_BEFORE_HEADER = 50
#: What a trace that holds sums alone notes.
SUMS_NOTE = "Sums without a timeline: idle time and overlap are not known."
_WHOLE = re.compile(r"(\d{1,19})(?:\.0+)?")
_ROUNDED = re.compile(r"\d(?:\.\d*)?[eE]\+?\d+")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its header, and its rows as they are read.

    Parameters
    ----------
    name : str
        Of the file, for messages.
    rows : iterator of list of str
        Each with as many cells as the header; an empty line ends the table.
    """

    name: str
    header: tuple[str, ...]
    rows: Iterator[list[str]]

    def position(self, *names: str) -> int | None:
        """Return where the first of some columns stands, case and spaces apart; None: nowhere."""
        folded = [fold(column) for column in self.header]
        return next((folded.index(fold(name)) for name in names if fold(name) in folded), None)

    def required(self, *names: str) -> int:
        """Return where the first of some columns stands.

        Raises
        ------
        InvalidTraceError
            None of them is there.
        """
        found = self.position(*names)
        if found is None:
            raise InvalidTraceError(
                f"{self.name} has no column {' or '.join(map(repr, names))} among "
                f"{', '.join(self.header[:20])}; export it again with that column."
            )
        return found

    def whole(self, row: Sequence[str], column: int) -> int:
        """Return a cell as a whole number.

        Raises
        ------
        InvalidTraceError
            It is none; numbers that a spreadsheet rounded are told apart.
        """
        return whole(self.name, self.header[column], row[column])


def whole(file: str, column: str, text: str) -> int:
    """Return a whole number >= 0 as a table writes it.

    Raises
    ------
    InvalidTraceError
        It is none; numbers that a spreadsheet rounded are told apart.

    Examples
    --------
    >>> whole("t.csv", "Start", "1411551767635712")
    1411551767635712
    """
    found = _WHOLE.fullmatch(text.strip())
    if found is not None:
        return int(found[1])
    if _ROUNDED.fullmatch(text.strip()):
        raise InvalidTraceError(
            f"{file} has {text!r} in column {column!r}: a spreadsheet has rounded it, and "
            "differences of rounded times mean nothing. Give the file as the profiler wrote it."
        )
    raise InvalidTraceError(
        f"{file} has {text[:60]!r} in column {column!r}; expected a whole number >= 0."
    )


def fold(name: str) -> str:
    """Return the name of a column without case, spaces, underscores and hyphens."""
    return re.sub(r"[\s_\-]", "", name).casefold()


def header_of(head: bytes, wanted: Callable[[frozenset[str]], bool]) -> tuple[str, ...] | None:
    """Return the header that a table begins with, or None where it begins with no such one.

    Parameters
    ----------
    head : bytes
        Beginning of a file.
    wanted : callable
        Tells whether a set of folded column names is the header.
    """
    lines = head[:_LINE_BYTES].split(b"\n", _LINES_BEFORE_HEADER)[:_LINES_BEFORE_HEADER]
    for line in lines:
        cells = _cells(line)
        if len(cells) > 1 and wanted(frozenset(map(fold, cells))):
            return cells
    return None


def open_table(path: Path, limits: TraceLimits, wanted: Callable[[frozenset[str]], bool]) -> Table:
    """Open a table, plain or gzipped; what stands before its header is passed over.

    Raises
    ------
    InvalidTraceError
        It has no such header. Further ones are raised while its rows are read.
    """
    tables = read_tables(path, limits, wanted)
    found = next(tables, None)
    if found is None:
        raise InvalidTraceError(f"{path.name} has no table with the columns of its format.")
    return found


def read_tables(
    path: Path, limits: TraceLimits, wanted: Callable[[frozenset[str]], bool]
) -> Iterator[Table]:
    """Yield the tables of a file, parted by empty lines; each is to be read before the next."""
    lines = _Lines(path, limits)
    for line in lines:
        cells = _cells(line.encode())
        if len(cells) > 1 and wanted(frozenset(map(fold, cells))):
            yield Table(name=path.name, header=cells, rows=_rows(path.name, len(cells), lines))


def _rows(name: str, width: int, lines: _Lines) -> Iterator[list[str]]:
    try:
        for number, row in enumerate(csv.reader(lines), start=1):
            lines.since_row = 0
            if not row:
                return
            if len(row) != width:
                raise InvalidTraceError(
                    f"{name} has {len(row)} cells in row {number} under a header of {width}; the "
                    "file is cut or damaged. Export it again."
                )
            yield row
    except csv.Error as error:
        raise InvalidTraceError(f"{name} is no sound CSV: {error}. Export it again.") from error


class _Lines:
    """Lines of a file, each and those of one row within bounds."""

    def __init__(self, path: Path, limits: TraceLimits) -> None:
        self.name = path.name
        self.since_row = 0
        self._lines = self._split(unpacked(path, limits))

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        self.since_row += 1
        if self.since_row > _LINES_OF_A_ROW + _LINES_BEFORE_HEADER:
            raise InvalidTraceError(
                f"{self.name} has a row of more than {_LINES_OF_A_ROW} lines, or no header: a "
                "quote is never closed, or it is no table of a profiler."
            )
        return next(self._lines)

    def _split(self, pieces: Iterator[bytes]) -> Iterator[str]:
        rest = b""
        for piece in pieces:
            *whole_lines, rest = (rest + piece).split(b"\n")
            for line in whole_lines:
                yield self._text(line)
            self._check(rest)
        if rest:
            yield self._text(rest)

    def _text(self, line: bytes) -> str:
        self._check(line)
        return line.decode(errors="replace").removesuffix("\r").removeprefix("\ufeff")

    def _check(self, line: bytes) -> None:
        if len(line) > _LINE_BYTES:
            raise InvalidTraceError(
                f"{self.name} has a line of more than {_LINE_BYTES // 2**20} MiB; it is no table "
                "of a profiler."
            )


def _cells(line: bytes) -> tuple[str, ...]:
    text = line.decode(errors="replace").strip().removeprefix("\ufeff")
    try:
        return tuple(cell.strip() for cell in next(csv.reader(io.StringIO(text)), []))
    except csv.Error:
        return ()

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
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d*)?")
_DELIMITERS = ",\t;"
_COMMA_FRACTION = re.compile(r"\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+")
_POINT_FRACTION = re.compile(r"\d+\.(?:\d{1,2}|\d{4,})|\d{1,3}(?:,\d{3})+\.\d+")
_COMMA_NUMBER = re.compile(r"(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?")
_UNCLEAR = re.compile(r"\d{1,3}(?:(?:,\d{3})+|(?:\.\d{3})+)")
#: Rows in which numbers are looked at for what parts them.
_ROWS_THAT_TELL = 100
_ROUNDED = re.compile(r"\d(?:\.\d*)?[eE]\+?\d+")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its header, and its rows as they are read.

    Parameters
    ----------
    name : str
        Of the file, for messages.
    rows : iterator of list of str
        Each with as many cells as the header.
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
    >>> whole("t.csv", "Start", "1411551767635712"), whole("t.csv", "Calls", "1,000")
    (1411551767635712, 1000)
    """
    found = _WHOLE.fullmatch(ungrouped(text))
    if found is not None:
        return int(found[1])
    refuse_rounded(file, column, text)
    raise InvalidTraceError(
        f"{file} has {text[:60]!r} in column {column!r}; expected a whole number >= 0."
    )


def refuse_rounded(file: str, column: str, text: str) -> None:
    """Refuse a number that a spreadsheet has rounded.

    Raises
    ------
    InvalidTraceError
        Its digits were cut and a power of ten stands in their place.
    """
    if _ROUNDED.fullmatch(text.strip()):
        raise InvalidTraceError(
            f"{file} has {text!r} in column {column!r}: a spreadsheet has rounded it, and "
            "differences of rounded times mean nothing. Give the file as the profiler wrote it."
        )


def ungrouped(text: str) -> str:
    """Return a number without the commas that part its thousands, anything else as it is.

    Examples
    --------
    >>> ungrouped("1,234.5"), ungrouped("1,5")
    ('1234.5', '1,5')
    """
    stripped = text.strip()
    return stripped.replace(",", "") if _GROUPED.fullmatch(stripped) else stripped


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
    return next((cells for line in lines if (cells := _header(line, wanted)[0])), None)


def open_table(path: Path, limits: TraceLimits, wanted: Callable[[frozenset[str]], bool]) -> Table:
    """Open the one table of a file, plain or gzipped.

    What stands before its header is passed over, and so are empty lines: rocprofv2 writes one
    behind the header.

    Raises
    ------
    InvalidTraceError
        It has no such header. Further ones are raised while its rows are read.
    """
    found = next(_tables(path, limits, wanted, parted=False), None)
    if found is None:
        raise InvalidTraceError(f"{path.name} has no table with the columns of its format.")
    return found


def read_tables(
    path: Path, limits: TraceLimits, wanted: Callable[[frozenset[str]], bool]
) -> Iterator[Table]:
    """Yield the tables of a file, parted by empty lines; each is to be read before the next."""
    return _tables(path, limits, wanted, parted=True)


def _tables(
    path: Path, limits: TraceLimits, wanted: Callable[[frozenset[str]], bool], *, parted: bool
) -> Iterator[Table]:
    lines = _Lines(path, limits)
    for line in lines:
        cells, delimiter = _header(line.encode(), wanted)
        if cells:
            rows = _rows(path.name, len(cells), lines, delimiter, parted=parted)
            yield Table(name=path.name, header=cells, rows=rows)


def _rows(
    name: str, width: int, lines: _Lines, delimiter: str, *, parted: bool
) -> Iterator[list[str]]:
    marks = _Marks(name, delimiter)
    try:
        for number, row in enumerate(csv.reader(lines, delimiter=delimiter), start=1):
            lines.since_row = 0
            if not row and parted:
                return
            if not row:
                continue
            if len(row) != width:
                raise InvalidTraceError(
                    f"{name} has {len(row)} cells in row {number} under a header of {width}; the "
                    "file is cut or damaged. Export it again."
                )
            yield marks.plain(number, row)
    except csv.Error as error:
        raise InvalidTraceError(f"{name} is no sound CSV: {error}. Export it again.") from error


class _Marks:
    """What parts thousands and fractions in the numbers of a table.

    Spreadsheets write 1.234,5 where people do, mostly between semicolons. A number with other than
    three digits behind its only mark tells which it is.
    """

    def __init__(self, name: str, delimiter: str) -> None:
        self.name = name
        self._semicolons = delimiter == ";"
        self._comma: bool | None = None
        self._unclear: str | None = None

    def plain(self, number: int, row: list[str]) -> list[str]:
        """Return a row with points before its fractions.

        Raises
        ------
        InvalidTraceError
            A number may be two, a thousand apart.
        """
        if self._comma is None and number <= _ROWS_THAT_TELL:
            if any(_COMMA_FRACTION.fullmatch(cell) for cell in row):
                self._comma = True
            elif any(_POINT_FRACTION.fullmatch(cell) for cell in row):
                self._comma = False
        if self._comma:
            pointed = next((cell for cell in row if _POINT_FRACTION.fullmatch(cell)), None)
            self._refuse(number, pointed or self._unclear)
            return [
                cell.replace(".", "").replace(",", ".") if _COMMA_NUMBER.fullmatch(cell) else cell
                for cell in row
            ]
        if self._comma is None and (self._semicolons or number <= _ROWS_THAT_TELL):
            unclear = next((cell for cell in row if _UNCLEAR.fullmatch(cell)), None)
            if self._semicolons:
                self._refuse(number, unclear)
            # Between commas it is read as thousands, unless a later row tells of another language.
            self._unclear = self._unclear or unclear
        return row

    def _refuse(self, number: int, unclear: str | None) -> None:
        if unclear is not None:
            raise InvalidTraceError(
                f"{self.name} has the number {unclear!r} up to row {number}, which is a fraction "
                "or thousands, as the language is. Export it with points before fractions and "
                "without marks of thousands."
            )


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
        return line.decode(errors="replace").removesuffix("\r")

    def _check(self, line: bytes) -> None:
        if len(line) > _LINE_BYTES:
            raise InvalidTraceError(
                f"{self.name} has a line of more than {_LINE_BYTES // 2**20} MiB; it is no table "
                "of a profiler."
            )


def _header(line: bytes, wanted: Callable[[frozenset[str]], bool]) -> tuple[tuple[str, ...], str]:
    """Return the columns of a line that is a wanted header, and what parts them; none otherwise."""
    text = line.decode(errors="replace").strip()
    for delimiter in _DELIMITERS:
        cells = _cells(text, delimiter)
        if len(cells) > 1 and wanted(frozenset(map(fold, cells))):
            return cells, delimiter
    return (), ","


def _cells(text: str, delimiter: str) -> tuple[str, ...]:
    try:
        row = next(csv.reader(io.StringIO(text), delimiter=delimiter), [])
        return tuple(cell.strip() for cell in row)
    except csv.Error:
        return ()

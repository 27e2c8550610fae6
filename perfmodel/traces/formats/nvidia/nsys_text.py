"""Tables for people that ``nsys stats`` prints: columns set by blanks, under a ruled header.

They are the reports of :mod:`perfmodel.traces.formats.nvidia.nsys_reports`; long names are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from perfmodel.errors import InvalidTraceError
from perfmodel.traces.builder import TraceBuilder
from perfmodel.traces.formats.nvidia.nsys_reports import report_of, trace_of
from perfmodel.traces.formats.tables import Table
from perfmodel.traces.formats.unpacking import unpacked
from perfmodel.traces.limits import TraceLimits
from perfmodel.traces.trace import Trace

NAME = "nsys-text"
_RULER = re.compile(r"\s*-+(?:\s+-+){2,}\s*")
#: What the print puts in the place of the rest of a name.
_CUT = "\N{HORIZONTAL ELLIPSIS}"
#: Prints for people are short.
_MOST_BYTES = 2**24


def recognise(head: bytes, path: Path) -> bool:
    """Tell whether a file holds such a table."""
    return any(
        report_of(table.header) for table in _tables(path.name, head.decode("utf-8", "replace"))
    )


def read(path: Path, limits: TraceLimits) -> Trace:
    """Read the tables of a run.

    Raises
    ------
    InvalidTraceError
        Nothing is told of the device, several runs stand in the file, or a number is none.
    """
    text = b""
    for piece in unpacked(path, limits):
        text += piece
        if len(text) > _MOST_BYTES:
            raise InvalidTraceError(f"{path.name} is longer than any print for people; {_GIVE}.")
    decoded = text.decode("utf-8", "replace")
    told: set[frozenset[str]] = set()
    for table in _tables(path.name, decoded):
        report = report_of(table.header)
        if report is not None and not report.refused and report.tells in told:
            raise InvalidTraceError(
                f"{path.name} tells the same twice ({', '.join(table.header[:3])}, ...): several "
                f"runs stand in it. Give the print of each run, or {_GIVE}."
            )
        told |= {report.tells} if report else set()
    builder = TraceBuilder(NAME, limits)
    if _CUT in decoded:
        builder.notes.append(_NAMES_CUT)
    return trace_of(path.name, _tables(path.name, decoded), builder)


_GIVE = "the CSV: `nsys stats --report cuda_gpu_trace --format csv FILE.nsys-rep`"
_NAMES_CUT = f"Names were cut by nsys where they were long ({_CUT}); times are whole."


def _tables(name: str, text: str) -> Iterator[Table]:
    """Yield the ruled tables of a text."""
    lines = text.splitlines()
    for number, line in enumerate(lines[1:], start=1):
        if _RULER.fullmatch(line):
            spans = [found.span() for found in re.finditer("-+", line)]
            header = tuple(_cells(lines[number - 1], spans))
            if all(header):
                yield Table(name=name, header=header, rows=_rows(lines, number + 1, spans))


def _rows(lines: list[str], start: int, spans: list[tuple[int, int]]) -> Iterator[list[str]]:
    """Yield the rows up to an empty line."""
    for number in range(start, len(lines)):
        if not lines[number].strip():
            return
        yield _cells(lines[number], spans)


def _cells(line: str, spans: list[tuple[int, int]]) -> list[str]:
    """Return what stands below each dash; the last column goes on to the end of the line."""
    last, _ = spans[-1]
    return [*(line[begin:end].strip() for begin, end in spans[:-1]), line[last:].strip()]

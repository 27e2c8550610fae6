"""What commands print: pure JSON; or tables, facts and numbers with their units for people.

Numbers have three significant digits and an SI prefix; what is unknown or not finite is a dash.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import category

_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
_BINARY_PREFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
#: Columns of a table that goes into a file or a pipe, where there is no terminal to fit.
_PIPE_WIDTH = 240


def print_json(value: Any, *, one_line: bool = False) -> None:
    """Print plain JSON values and nothing else; a number that is not finite is printed as null.

    ``one_line`` is for streams of many answers.
    """
    import orjson

    option = orjson.OPT_APPEND_NEWLINE | (0 if one_line else orjson.OPT_INDENT_2)
    sys.stdout.write(orjson.dumps(value, option=option).decode())
    sys.stdout.flush()


def tell(line: str) -> None:
    """Print a line of progress on standard error, so that standard output stays clean."""
    print(line, file=sys.stderr, flush=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", right: str = ""
) -> None:
    """Print a table with an optional line above it.

    ``right`` has one letter a column: ``r`` aligns it to the right; missing ones are to the left.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify="left")
    for position, column in enumerate(columns):
        to_right = right[position : position + 1] == "r"
        table.add_column(column, justify="right" if to_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    console.print(table)


def printable(text: str) -> str:
    r"""Return a text without what a terminal obeys or hides, as names in files of others have.

    Tabs and spaces of all widths stay spaces.

    Examples
    --------
    >>> ascii(printable("gemm\x1b[31m"))
    "'gemm\\ufffd[31m'"
    >>> printable("2\xa0GPUs\tof 8")
    '2 GPUs of 8'
    """
    return "".join(map(_shown, text))


def _shown(one: str) -> str:
    if one.isprintable() or one == "\n":
        return one
    return " " if one == "\t" or category(one) == "Zs" else "\N{REPLACEMENT CHARACTER}"


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print pairs of a name and a value, the values in one column."""
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        lines = [printable(line) for line in value.splitlines()] or [""]
        print(f"{name:<{width}}  {lines[0]}")
        for line in lines[1:]:
            print(f"{'':<{width}}  {line}")


def with_unit(value: float | None, unit: str) -> str:
    """Format a number with an SI prefix.

    Examples
    --------
    >>> with_unit(312e12, "FLOP/s"), with_unit(85_899_345_920, "B"), with_unit(7, "B")
    ('312 TFLOP/s', '85.9 GB', '7 B')
    """
    return _scaled(value, unit, step=1000, prefixes=_PREFIXES)


def memory(size_bytes: float | None) -> str:
    """Format an amount of memory in powers of 1024, as memories are sold.

    Examples
    --------
    >>> memory(85_899_345_920), memory(102_228_128), memory(12)
    ('80 GiB', '97.5 MiB', '12 B')
    """
    return _scaled(size_bytes, "B", step=1024, prefixes=_BINARY_PREFIXES)


def duration(seconds: float | None) -> str:
    """Format a time in the unit that suits it.

    Examples
    --------
    >>> duration(0.1032), duration(42e-6), duration(3.5), duration(725), duration(0)
    ('103 ms', '42 us', '3.5 s', '12 min 5 s', '0 s')
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds == 0:
        return "0 s"
    if seconds >= 119.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= 0.9995 * scale:
            return f"{_three_digits(seconds / scale)} {unit}"
    return f"{_three_digits(seconds / 1e-9)} ns"


def count(value: float | None) -> str:
    """Format a number without a unit, with an SI prefix from a million on.

    Examples
    --------
    >>> count(19840), count(25_557_032), count(3.14159)
    ('19,840', '25.6 M', '3.14')
    """
    if value is None or not math.isfinite(value):
        return "-"
    if abs(value) >= 1e6:
        return with_unit(value, "")
    return f"{value:,.0f}" if abs(value) >= 1000 else _three_digits(value)


def percent(share: float | None) -> str:
    """Format a share as a percentage.

    Examples
    --------
    >>> percent(0.1234)
    '12.3 %'
    """
    return "-" if share is None or not math.isfinite(share) else f"{100 * share:.3g} %"


def _scaled(value: float | None, unit: str, *, step: int, prefixes: Sequence[str]) -> str:
    if value is None or not math.isfinite(value):
        return "-"
    size, prefix = float(value), 0
    # 999.5 would round to "1000 k": it belongs to the next prefix already.
    while abs(size) >= step - 0.5 and prefix < len(prefixes) - 1:
        size, prefix = size / step, prefix + 1
    return f"{_three_digits(size)} {prefixes[prefix]}{unit}".rstrip()


def _three_digits(value: float) -> str:
    if value == 0 or abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.3g}"

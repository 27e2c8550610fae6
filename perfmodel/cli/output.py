"""What commands print: pure JSON, or tables for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

#: Columns of a table that goes into a file or a pipe, where there is no terminal to fit.
_PIPE_WIDTH = 240


def print_json(value: Any, *, one_line: bool = False) -> None:
    """Print a value as JSON and nothing else.

    Parameters
    ----------
    value : object
        Plain JSON values; a number that is not finite is printed as null.
    one_line : bool
        For streams of many answers.
    """
    import orjson

    option = orjson.OPT_APPEND_NEWLINE | (0 if one_line else orjson.OPT_INDENT_2)
    sys.stdout.write(orjson.dumps(value, option=option).decode())
    sys.stdout.flush()


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", right: str = ""
) -> None:
    """Print a table.

    Parameters
    ----------
    columns : sequence of str
        Headings.
    rows : iterable of sequences of str
        Cells, formatted with their units.
    title : str
        Line above the table.
    right : str
        One letter a column: ``r`` aligns it to the right; missing ones are to the left.
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
        table.add_row(*(Text(cell) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PIPE_WIDTH)
    console.print(table)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print pairs of a name and a value, the values in one column.

    Parameters
    ----------
    facts : sequence of (str, str)
        In the order in which they are printed.
    """
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        lines = value.splitlines() or [""]
        print(f"{name:<{width}}  {lines[0]}")
        for line in lines[1:]:
            print(f"{'':<{width}}  {line}")

"""Sections of docs/accuracy.md that other commands write: kept when the page is written again."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

#: Heading of each, by the command that writes it.
TRACES = "## Operators of traces, predicted and traced"
#: Written with the page where the lockbox was asked, and else kept.
LOCKBOX_HEADING = "## The lockbox"
KEPT = (LOCKBOX_HEADING, TRACES)
#: Before which section they stand.
_BEFORE = "## What was not blind"


def kept_sections(path: Path, written: Collection[str] = ()) -> list[str]:
    """Return the lines of the kept sections of a page that lies there; none where none does.

    Parameters
    ----------
    written : collection of str
        Headings of sections that are written anew and not kept.
    """
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [heading for heading in KEPT if heading not in written]
    return [line for heading in kept for line in _section(lines, heading)]


def with_section(page: str, heading: str, section: str) -> str:
    r"""Return a page with one of its kept sections replaced, or put in.

    Examples
    --------
    >>> page = "# A\n\n## What was not blind\n\nNothing.\n"
    >>> print(with_section(page, TRACES, TRACES + "\n\nA table."))
    # A
    <BLANKLINE>
    ## Operators of traces, predicted and traced
    <BLANKLINE>
    A table.
    <BLANKLINE>
    ## What was not blind
    <BLANKLINE>
    Nothing.
    <BLANKLINE>
    """
    lines = page.splitlines()
    old = _section(lines, heading)
    start = lines.index(heading) if old else _place(lines)
    new = [*section.rstrip().splitlines(), ""]
    return "\n".join([*lines[:start], *new, *lines[start + len(old) :]]).rstrip() + "\n"


def _section(lines: list[str], heading: str) -> list[str]:
    if heading not in lines:
        return []
    start = lines.index(heading)
    ends = (i for i in range(start + 1, len(lines)) if lines[i].startswith("## "))
    return lines[start : next(ends, len(lines))]


def _place(lines: list[str]) -> int:
    return lines.index(_BEFORE) if _BEFORE in lines else len(lines)

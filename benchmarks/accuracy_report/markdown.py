"""Tables and bars of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def percent(value: float | None, *, signed: bool = False) -> str:
    """Return a share as percent with one digit; a dash where there is none.

    Examples
    --------
    >>> percent(0.0712), percent(-0.01, signed=True), percent(None)
    ('7.1 %', '-1.0 %', '-')
    """
    if value is None:
        return "-"
    return f"{100.0 * value:+.1f} %" if signed else f"{100.0 * value:.1f} %"


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with some digits; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> Iterator[str]:
    """Yield the lines of a Markdown table and an empty one.

    Parameters
    ----------
    left : int
        Columns set to the left; the others are set to the right.
    """
    yield f"| {' | '.join(header)} |"
    yield "|" + "|".join("---" if i < left else "---:" for i in range(len(header))) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def bars(items: Sequence[tuple[str, float]], *, width: int = 40) -> Iterator[str]:
    """Yield a code block with one bar an item, the longest as wide as asked.

    Examples
    --------
    >>> list(bars([("k=0", 0.1), ("k=5", 0.05)], width=4))[1:3]
    ['k=0  ████ 10.0 %', 'k=5  ██ 5.0 %']
    """
    longest = max((value for _, value in items), default=0.0) or 1.0
    margin = max((len(name) for name, _ in items), default=0)
    yield "```"
    for name, value in items:
        yield f"{name:<{margin}}  {'█' * round(width * value / longest)} {percent(value)}"
    yield "```"
    yield ""

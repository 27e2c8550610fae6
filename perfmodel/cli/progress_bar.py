"""How far a command is and when it ends, on standard error: a bar on a terminal, else lines."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from perfmodel.cli.output import duration, tell


class ProgressBar:
    """A bar for each of some lists of work, below the lines that are printed meanwhile.

    Nothing is drawn where standard error is no terminal; lines are printed all the same.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._lists: dict[str, Any] = {}

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def line(self, text: str) -> None:
        """Print a line."""
        if self._bar is None:
            tell(text)
        else:
            self._bar.console.print(text, highlight=False, markup=False)

    def advance(self, what: str, done: int, total: int, end: str, *, of: str = "") -> None:
        """Show what runs, how much is done, and when all of it ends.

        Parameters
        ----------
        end : str
            For example of :func:`end_in`.
        of : str
            The list it belongs to, where there are several.
        """
        if self._bar is None:
            return
        if of not in self._lists:
            self._lists[of] = self._bar.add_task("", total=total, end="")
        self._bar.update(self._lists[of], completed=done, description=what, end=end)


def end_in(remaining_s: float | None) -> str:
    """Say when something ends that takes so long.

    Examples
    --------
    >>> end_in(None)
    'end unknown yet'
    """
    if remaining_s is None:
        return "end unknown yet"
    end = datetime.now(UTC) + timedelta(seconds=remaining_s)
    return f"{duration(remaining_s)} left, ends {end.isoformat(timespec='seconds')}"


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[end]}"),
        console=Console(stderr=True),
    )

"""What a promise is, and what was found of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Verdict(StrEnum):
    """What a measurement makes of a promise."""

    HELD = "held"
    MISSED = "missed"
    #: What it needs is not on this machine, or was not measured yet.
    NOT_RUN = "not run"
    #: The measurement itself broke off: nothing is known.
    FAILED = "failed"


class NotHereError(Exception):
    """What a row needs is not on this machine; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a row measured.

    Parameters
    ----------
    measured : str
        The figures, in words.
    held : bool
        Whether they keep the promise.
    """

    measured: str
    held: bool


@dataclass(frozen=True, kw_only=True)
class Row:
    """A promise and what measures it.

    Parameters
    ----------
    name : str
        What ``--only`` takes.
    title, promised : str
    counted : str
        What a count is of.
    full, fast : int
        Counts of the two forms.
    measure : callable
        Takes a count and returns what was found, in a process of its own. It may raise
        :class:`NotHereError`.
    how : str
        What is done, for the page.
    is_timed : bool
        Whether other work on the machine stretches its figures.
    limit_s : float
        Time after which the full form is given up.
    """

    name: str
    title: str
    promised: str
    counted: str
    full: int
    fast: int
    measure: Callable[[int], Found]
    how: str
    is_timed: bool = False
    limit_s: float = 1_800.0


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was found of a row, where and when.

    Parameters
    ----------
    count : int
    took_s : float
    load : float
        Processes that wanted to run when it began: the load average of one minute.
    cores : int
    at : str
        UTC, ISO 8601.
    """

    name: str
    verdict: Verdict
    measured: str
    count: int
    took_s: float
    load: float
    cores: int
    at: str


def read_results(path: Path) -> dict[str, Result]:
    """Return what is kept of rows by their names; nothing where there is no file."""
    if not path.exists():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Result(**{**one, "verdict": Verdict(one["verdict"])}) for name, one in kept.items()
    }


def keep_result(path: Path, result: Result) -> None:
    """Put a result in the place of the one before."""
    kept = {name: asdict(one) for name, one in read_results(path).items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({**kept, result.name: asdict(result)}, indent=1, sort_keys=True) + "\n",
        encoding="utf-8",
    )

"""Options of a question besides what it is about: which model answers, and by when."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from perfmodel.errors import InvalidInputError
from perfmodel.graph.json_values import as_flag, as_text, shown
from service.versions.loaded_versions import ANALYTICAL

FIELDS = frozenset({"pin_model", "deadline_ms", "allow_fallback"})

#: Says what ``deadline_ms`` says, for callers that cannot change the body; the body stands over it.
HEADER = b"x-deadline-ms"

#: Longer than anybody waits; a number that is larger is a mistake of unit.
MOST_MS = 3_600_000.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How a question is to be answered.

    Parameters
    ----------
    pin_model : str or None
        The one version of the model that may answer.
    until_s : float or None
        When the caller stops waiting, on the clock of :func:`time.monotonic`.
    deadline_ms : float or None
        How long the caller waits, as it was stated.
    allow_fallback : bool
        Whether the analytical model may answer where the full answer does not come in time.
    """

    pin_model: str | None = None
    until_s: float | None = None
    deadline_ms: float | None = None
    allow_fallback: bool = True

    @property
    def left_s(self) -> float | None:
        """Seconds that are left, at least 0; None without a deadline."""
        return None if self.until_s is None else max(0.0, self.until_s - time.monotonic())

    @property
    def may_fall_back(self) -> bool:
        """Whether the analytical model may answer."""
        if self.pin_model is not None:
            return self.pin_model in ANALYTICAL
        return self.allow_fallback


#: No options at all.
NO_OPTIONS = Options()


def split_options(question: Any, stated_ms: bytes | None = None) -> tuple[Any, Options]:
    """Return a question without its options, and these.

    Parameters
    ----------
    stated_ms : bytes or None
        Value of the header. Either counts from now.

    Examples
    --------
    >>> question, options = split_options({"job": 1, "deadline_ms": 50})
    >>> question, options.deadline_ms, options.allow_fallback
    ({'job': 1}, 50.0, True)
    """
    if type(question) is not dict or (stated_ms is None and FIELDS.isdisjoint(question)):
        return question, NO_OPTIONS
    plain = {name: value for name, value in question.items() if name not in FIELDS}
    waits_ms = _deadline_ms(question.get("deadline_ms"))
    if waits_ms is None and stated_ms is not None:
        waits_ms = _deadline_ms_of_header(stated_ms)
    pinned, allowed = question.get("pin_model"), question.get("allow_fallback")
    return plain, Options(
        pin_model=None if pinned is None else as_text("pin_model", pinned, "/pin_model"),
        until_s=None if waits_ms is None else time.monotonic() + waits_ms / 1e3,
        deadline_ms=waits_ms,
        allow_fallback=allowed is None or as_flag("allow_fallback", allowed, "/allow_fallback"),
    )


def _deadline_ms(value: Any, pointer: str = "/deadline_ms") -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST_MS:
        raise InvalidInputError(
            "deadline_ms is how many milliseconds the answer may take, above 0 and at most "
            f"{MOST_MS:.0f}; got {shown(value)}.",
            pointer=pointer,
        )
    return float(value)


def _deadline_ms_of_header(value: bytes) -> float | None:
    try:
        return _deadline_ms(float(value), pointer="")
    except ValueError:
        text = value.decode("latin-1")
        raise InvalidInputError(
            f"The header X-Deadline-Ms is a number of milliseconds; got {shown(text)}."
        ) from None

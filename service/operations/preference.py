"""Read what a caller prefers (RFC 7240)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: Longest time that a caller is let wait, seconds.
MOST_WAIT_S = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Preference:
    """How a caller wants to be answered.

    Parameters
    ----------
    respond_async : bool
        Later is welcome.
    wait_s : float
        But at once if it takes no longer than this, seconds.
    """

    respond_async: bool = False
    wait_s: float = 0.0


def preference_of(headers: Iterable[tuple[bytes, bytes]]) -> Preference:
    """Read the ``Prefer`` headers of a request; what is not known is passed over.

    Parameters
    ----------
    headers : iterable of pair of bytes
        Names in lower case, as ASGI hands them over.

    Examples
    --------
    >>> preference_of([(b"prefer", b'respond-async, wait=10'), (b"accept", b"*/*")])
    Preference(respond_async=True, wait_s=10.0)
    >>> preference_of([(b"prefer", b"return=minimal")]).respond_async
    False
    """
    words: dict[str, str] = {}
    for name, value in headers:
        if name == b"prefer":
            for written in value.decode("latin-1").split(","):
                # A preference may have parameters behind semicolons; these two have none.
                word, _, argument = written.partition(";")[0].partition("=")
                # Of one that is stated twice the first counts.
                words.setdefault(word.strip().lower(), argument.strip().strip('"'))
    wait = words.get("wait", "")
    return Preference(
        respond_async="respond-async" in words,
        wait_s=min(float(wait[:6]), MOST_WAIT_S) if wait.isdecimal() else 0.0,
    )

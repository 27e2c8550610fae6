"""How much of a file a reader of traces takes in before it refuses it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceLimits:
    """Bounds on a trace; beyond one it is refused with an :class:`InvalidTraceError`.

    Parameters
    ----------
    size_bytes : int
        Of the file, unpacked.
    events : int
        Operators, kernels and all else that the file lists.
    event_bytes : int
        Of one event, and of what stands behind the last one.
    header_bytes : int
        Of what stands before the first event.
    names_bytes : int
        Of all distinct names together.
    arguments_bytes : int
        Of all distinct arguments of operators together, as the file writes them; further ones are
        left out, and said so. In memory they take some ten times as much.
    threads, steps : int
        Different threads, and marked steps.
    unpacked_ratio : float
        Unpacked over packed bytes, once 16 MiB are unpacked: beyond it the file is a bomb.
    """

    size_bytes: int = 16 * 2**30
    events: int = 50_000_000
    event_bytes: int = 64 * 2**20
    header_bytes: int = 4 * 2**20
    names_bytes: int = 128 * 2**20
    arguments_bytes: int = 32 * 2**20
    threads: int = 100_000
    steps: int = 100_000
    unpacked_ratio: float = 150.0


#: Bounds of traces that a user opens.
DEFAULT_LIMITS = TraceLimits()

#: No time of a trace, in nanoseconds, may be as far from zero as this: 146 years.
LATEST_NS = 2**62

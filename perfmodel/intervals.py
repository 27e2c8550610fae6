"""The intervals that answers state: nine in ten true values lie inside."""

from __future__ import annotations

import math

#: Share of true values inside an interval.
COVERAGE = 0.9
#: Its half width in standard deviations of a normal deviate.
DEVIATIONS = 1.645


def wider(end: float, half_width: float) -> float:
    """Return an end of an interval, over its middle, with an independent width added."""
    if not half_width:
        return end
    return math.exp(math.copysign(math.hypot(math.log(end), half_width), math.log(end)))

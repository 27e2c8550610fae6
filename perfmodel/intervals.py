"""The intervals that answers state: nine in ten true values lie inside."""

from __future__ import annotations

#: Share of true values inside an interval.
COVERAGE = 0.9
#: Its half width in standard deviations of a normal deviate.
DEVIATIONS = 1.645

"""What was measured or printed several times: one record each."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import replace

from perfmodel.importers.published import PublishedPlacement, PublishedStep


def one_record_each(steps: Iterable[PublishedStep]) -> tuple[PublishedStep, ...]:
    """Return the steps with those of one source, job and accelerator as one record.

    It has the median of their rates, how many they were and how far apart relative to it, and the
    line of the first.
    """
    points: dict[tuple[str, str, str], list[PublishedStep]] = {}
    for step in steps:
        key = (step.origin.source, step.job.reference, step.accelerator)
        points.setdefault(key, []).append(step)
    return tuple(_together(same) if len(same) > 1 else same[0] for same in points.values())


def _together(same: list[PublishedStep]) -> PublishedStep:
    rates = [step.samples_per_second for step in same]
    middle = statistics.median(rates)
    return replace(
        same[0],
        samples_per_second=middle,
        repeats=sum(step.repeats for step in same),
        spread=(max(rates) - min(rates)) / middle,
    )


def newest_placements(found: Iterable[PublishedPlacement]) -> tuple[PublishedPlacement, ...]:
    """Return of equal jobs on equal placements by equal software the one that was read last."""
    points = {
        (one.origin.source, one.job.reference, one.placement): one
        for one in found
        if one.job is not None
    }
    return tuple(points.values())

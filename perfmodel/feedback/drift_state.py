"""How things stand, from what is kept: alarms, groups, reporters, residuals over time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from perfmodel.feedback.agreement import Agreement, Level, agreements
from perfmodel.feedback.residuals import release_of
from perfmodel.store.feedback import AlarmState, AlarmStore, ResidualStore, StoredResidual

#: Observations that groups, reporters and points are made of, the newest.
NEWEST = 5_000
#: Alarms that are told at most.
MOST_ALARMS = 1_000


def residual_state(residuals: ResidualStore) -> dict[str, Any]:
    """Return all of ``Drift`` of the client that follows from residuals."""
    newest = residuals.newest(NEWEST)
    found = [one for one in newest if one.predicted_s is not None]
    counts = residuals.counts()
    return {
        "model": newest[-1].now_version if newest else "",
        "compared": counts.compared,
        "left_out": counts.left_out,
        "waiting": counts.waiting,
        "groups": group_summaries(found),
        "reporters": reporter_summaries(found),
        "points": points_over_time(found),
    }


def alarm_state(alarms: AlarmStore, *, ended: int) -> list[dict[str, Any]]:
    """Return open alarms, and so many of those that have ended, each newest first."""
    found = [*alarms.page(state=AlarmState.OPEN, limit=MOST_ALARMS).items]
    if ended:
        found += alarms.page(state=AlarmState.ENDED, limit=ended).items
    return [dict(one.to_dict()) for one in found]


#: Parts that the residuals of one group are cut into, for a line over time.
_POINTS = 48
#: Groups of one kind that are told, those with most residuals first.
_MOST_OF_A_KIND = 100


def group_summaries(residuals: Sequence[StoredResidual]) -> list[dict[str, Any]]:
    """Return bias, error and coverage of each group, as ``DriftGroup`` of the client has them."""
    members: dict[tuple[str, str], list[StoredResidual]] = {}
    for one in residuals:
        for group in _shown_groups(one):
            members.setdefault(group, []).append(one)
    told: dict[str, list[dict[str, Any]]] = {}
    for (kind, value), own in sorted(members.items(), key=lambda item: (-len(item[1]), item[0])):
        told.setdefault(kind, []).append({"kind": kind, "value": value, **_summary(own)})
    return [line for kind in sorted(told) for line in told[kind][:_MOST_OF_A_KIND]]


def points_over_time(residuals: Sequence[StoredResidual]) -> list[dict[str, Any]]:
    """Return the residuals of all and of each accelerator over time, as ``DriftPoint`` has them.

    Each point sums up as many residuals as the others of its group, but for the last one.
    """
    by: dict[tuple[str, str], list[StoredResidual]] = {("all", "all"): list(residuals)}
    for one in residuals:
        by.setdefault(("accelerator", one.accelerator), []).append(one)
    return [
        {
            "kind": kind,
            "value": value,
            "begins_at": part[0].received_at,
            "ends_at": part[-1].received_at,
            **{name: _summary(part)[name] for name in ("count", "bias", "error", "error_now")},
        }
        for (kind, value), own in sorted(by.items())
        for part in _parts(own)
    ]


def reporter_agreements(residuals: Iterable[StoredResidual]) -> dict[str, Agreement]:
    """Return how far each reporter agrees with the others."""
    seen: dict[tuple[str, str, str], list[float]] = {}
    for one in residuals:
        off = log_ratio(one.measured_s, one.now_s)
        if off is not None:
            seen.setdefault((one.reporter, one.accelerator, one.family), []).append(off)
    levels = [Level(*key, statistics.median(own)) for key, own in seen.items()]
    return dict(agreements(levels))


def reporter_summaries(residuals: Sequence[StoredResidual]) -> list[dict[str, Any]]:
    """Return how far each reporter agrees with the others, as ``DriftReporter`` has them."""
    counts: dict[str, int] = {}
    for one in residuals:
        counts[one.reporter] = counts.get(one.reporter, 0) + 1
    found = reporter_agreements(residuals)
    lines = [
        {
            "reporter": name,
            "count": count,
            "jobs": found.get(name, Agreement()).jobs,
            "deviation": found.get(name, Agreement()).deviation,
            "weight": found.get(name, Agreement()).weight,
            "disagrees": found.get(name, Agreement()).disagrees,
        }
        for name, count in counts.items()
    ]
    return sorted(
        lines, key=lambda line: (not line["disagrees"], -abs(line["deviation"]), line["reporter"])
    )


def log_ratio(measured_s: float, predicted_s: float | None) -> float | None:
    """Return ln(measured / predicted); None where there is no prediction."""
    return None if predicted_s is None else math.log(measured_s / predicted_s)


def _shown_groups(one: StoredResidual) -> Iterator[tuple[str, str]]:
    yield "all", "all"
    yield "accelerator", one.accelerator
    yield "mode", one.mode
    yield "operators", one.operators
    yield "reporter", one.reporter
    for name, version in one.software.items():
        yield "software", f"{name} {release_of(version)}"


def _summary(own: Sequence[StoredResidual]) -> dict[str, Any]:
    then = [math.log(one.measured_s / one.predicted_s) for one in own if one.predicted_s]
    now = [math.log(one.measured_s / one.now_s) for one in own if one.now_s]
    inside = [(one.low_s or 0.0) <= one.measured_s <= (one.high_s or 0.0) for one in own]
    return {
        "count": len(own),
        "bias": statistics.median(then),
        "error": statistics.fmean(map(abs, then)),
        "coverage": sum(inside) / len(own),
        "bias_now": statistics.median(now) if now else None,
        "error_now": statistics.fmean(map(abs, now)) if now else None,
    }


def _parts(own: Sequence[StoredResidual]) -> Iterator[Sequence[StoredResidual]]:
    size = math.ceil(len(own) / _POINTS)
    for start in range(0, len(own), max(1, size)):
        yield own[start : start + size]

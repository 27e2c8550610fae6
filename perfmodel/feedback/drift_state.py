"""How things stand, from what is kept: alarms, groups, reporters, residuals over time."""

from __future__ import annotations

from typing import Any

from perfmodel.feedback.summaries import group_summaries, points_over_time, reporter_summaries
from perfmodel.store.feedback import AlarmState, AlarmStore, ResidualStore

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

"""What starts a retraining by itself: a time, what came in, an alarm.

Time is that of the database. A clock that goes forward over many times of an expression starts one
retraining; one that goes back puts off none for longer than it would wait anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from perfmodel.errors import InvalidInputError, MissingExtraError
from perfmodel.store.retraining.entering import Decision, TriggerStore
from perfmodel.store.retraining.retraining_marks import Arrivals, Mark
from perfmodel.store.retraining.retraining_records import Trigger

#: Fields of an expression: minute, hour, day of the month, month, day of the week.
_FIELDS = 5
#: A field, or a part of one, that is drawn (as croniter allows).
_DRAWN = re.compile(r"(?<![a-z])r(?![a-z])", re.IGNORECASE)
_CALLER = "by itself"


@dataclass(frozen=True, kw_only=True)
class TriggerRules:
    """When a model is learned anew by itself.

    Parameters
    ----------
    cron : str
        An expression of five fields, in UTC; empty: at no time. Times at which a retraining is
        open, or that lie within ``least_s`` of the last one, are passed over.
    after_observations, after_records : int
        Accepted observations, and finished tasks of campaigns, since the last retraining was
        entered; 0: however many.
    on_drift : bool
        When an alarm opens that advises it, and that nobody has acknowledged.
    least_s : float
        Least time between two retrainings, whoever entered the first, seconds.
    settings : mapping
        Of those that start, as :class:`~perfmodel.retraining.settings.RetrainSettings` writes them.

    Raises
    ------
    InvalidInputError
        An expression that names no time.
    MissingExtraError
        An expression, and nothing that reads it.
    """

    model: str = "default"
    cron: str = ""
    after_observations: int = 0
    after_records: int = 0
    on_drift: bool = False
    least_s: float = 3600.0
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if self.cron:
            next_time(self.cron, 0.0)

    @property
    def are_any(self) -> bool:
        """Whether anything starts a retraining."""
        return bool(self.cron or self.after_observations or self.after_records or self.on_drift)


def look(store: TriggerStore, rules: TriggerRules) -> str | None:
    """Start the retraining that is due, unless another process has; return its name.

    Raises
    ------
    StoreError
        The database cannot be read or written.
    """
    if not rules.are_any:
        return None
    return store.look(
        rules.model,
        lambda mark, arrivals: decide(rules, mark, arrivals),
        most_observations=rules.after_observations,
        caller=_CALLER,
        settings=rules.settings,
    )


def decide(rules: TriggerRules, mark: Mark | None, arrivals: Arrivals) -> Decision:
    """Return what follows from what came in since a mark."""
    time_s = arrivals.time_s
    kept = _true_to_clock(mark or Mark(), arrivals)
    following = next_time(rules.cron, time_s) if rules.cron else 0.0
    has_come = kept.cron == rules.cron and 0.0 < kept.due_at <= time_s
    scheduled = replace(kept, cron=rules.cron, due_at=following)
    if arrivals.is_open or time_s - kept.entered_at < rules.least_s:
        return Decision(mark=scheduled)
    if has_come:
        return Decision(mark=scheduled, trigger=Trigger.CRON, why=f"the time of {rules.cron!r}")
    return _by_arrivals(rules, scheduled, arrivals)


def _by_arrivals(rules: TriggerRules, mark: Mark, arrivals: Arrivals) -> Decision:
    alarm = arrivals.alarm
    if rules.on_drift and alarm is not None:
        why = f"alarm {alarm.name}: {alarm.kind} {alarm.value}"
        return Decision(mark=mark, trigger=Trigger.DRIFT, why=why)
    if rules.after_observations and arrivals.observations >= rules.after_observations:
        why = f"{arrivals.observations} new observations"
        return Decision(mark=mark, trigger=Trigger.COUNT, why=why)
    records = arrivals.records - mark.records
    if rules.after_records and records >= rules.after_records:
        return Decision(mark=mark, trigger=Trigger.COUNT, why=f"{records} new campaign records")
    return Decision(mark=mark)


def _true_to_clock(mark: Mark, arrivals: Arrivals) -> Mark:
    """Return a mark that lies in the past, whatever the clock did or was removed since."""
    return replace(
        mark,
        entered_at=min(mark.entered_at, arrivals.time_s),
        records=min(mark.records, arrivals.records),
    )


def next_time(cron: str, after_s: float) -> float:
    """Return the next time of an expression, POSIX seconds.

    Raises
    ------
    InvalidInputError
        It is none of five fields, or names no time.

    Examples
    --------
    At three in the morning of the first of January 1970, and a day later.

    >>> next_time("0 3 * * *", 0.0), next_time("0 3 * * *", 10800.0)
    (10800.0, 97200.0)
    """
    try:
        from croniter import CroniterError, croniter
    except ModuleNotFoundError as error:
        raise MissingExtraError("Retraining at stated times", extra="retrain") from error
    try:
        if len(cron.split()) != _FIELDS:
            raise ValueError(f"it has {len(cron.split())} fields")
        if _DRAWN.search(cron):
            raise ValueError("drawn times would differ between the processes that look")
        return float(croniter(cron, after_s).get_next(float))
    except (CroniterError, ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"{cron[:80]!r} is no cron expression that names a time: {error}. Five fields are "
            "needed: minute, hour, day of the month, month and day of the week, in UTC; "
            "'0 3 * * *' is each night at three."
        ) from error

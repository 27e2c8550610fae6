"""What is kept of a retraining."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from perfmodel.store.sql import leases


class RetrainingState(StrEnum):
    """Where a retraining stands."""

    WAITING = leases.WAITING
    RUNNING = leases.RUNNING
    DONE = "done"
    """Its version was published and judged good enough; the registry says whether it serves."""
    REFUSED = "refused"
    """The gate found something against its version."""
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Whether something may still come of it."""
        return self in (RetrainingState.WAITING, RetrainingState.RUNNING)


class Trigger(StrEnum):
    """What started a retraining."""

    HAND = "hand"
    CRON = "cron"
    COUNT = "count"
    """So many new observations or records came in."""
    DRIFT = "drift"


@dataclass(frozen=True, kw_only=True, slots=True)
class Retraining:
    """A model that is learned anew.

    Parameters
    ----------
    name : str
        By which it is asked for.
    model : str
        Name of the model; one retraining of it at a time.
    why, caller : str
        The reason; the identifier of the key or the user that asked for it.
    settings : mapping
        As :class:`perfmodel.retraining.settings.RetrainSettings` writes them.
    phase : str
        What it does now or did last; empty before the first.
    progress : str
        What happened last, for people.
    fraction : float
        How much of its phases is done, in [0, 1].
    attempts : int
        How often it was begun. What an earlier attempt brings after it was taken to be lost is
        dropped.
    version : str or None
        The version that it makes, from its decision on.
    decision : mapping or None
        What the gate said, perhaps in an earlier attempt on another host: ``accepted``,
        ``findings``, ``report``, ...
    reason : str or None
        Of one that failed, was refused or did not let its version serve: why.
    """

    name: str
    model: str
    trigger: Trigger
    why: str
    caller: str
    settings: Mapping[str, Any]
    state: RetrainingState
    phase: str
    progress: str
    fraction: float
    attempts: int
    version: str | None
    decision: Mapping[str, Any] | None
    reason: str | None
    created_at: str
    updated_at: str

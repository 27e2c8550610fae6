"""Measured steps of jobs as values: how one is kept, what became of it, and which are meant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from sqlalchemy import ColumnElement, literal_column

from perfmodel.store.sql.tables import OBSERVATIONS, RAN_OUT_BEYOND_S
from perfmodel.store.state.jobs import StoredJob


class ObservationState(StrEnum):
    """Whether an observation counts."""

    ACCEPTED = "accepted"
    #: Not believed, for the reason that stands beside it.
    QUARANTINED = "quarantined"
    #: Left out by somebody, who may take it in again.
    EXCLUDED = "excluded"


class Outcome(StrEnum):
    """What became of an observation that was sent."""

    #: It is on disk.
    ADDED = "added"
    #: It was there before: the same reporter and key, the same content.
    KNOWN = "known"
    #: The key belongs to an observation of other content by the same reporter, which stays.
    CONFLICT = "conflict"


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredObservation:
    """A measured step as it is kept, or one that ran out of memory.

    Parameters
    ----------
    job : StoredJob
        The job that was measured; read back, it has only ``ref`` and ``family``.
    key : str
        Names the observation among those of its reporter and the family of its job, at most 200
        characters.
    content_hash : str
        Tells an observation that is sent again from another of the same key.
    placement : str
        As JSON.
    step_time_s : float
        Infinite of one that ran out of memory.
    reason : str or None
        Why it is, or was, quarantined.
    reporter : str
        Who sent it; empty where nobody wrote that down.
    received_at : str
        UTC, ISO 8601; empty before it is kept.
    software : tuple of (str, str)
        Names, sorted, and versions of what it was measured with, where they were stated beside the
        job.
    expires_in_s : float or None
        How long it is to count once it is kept; None: as long as any, and where it was read back.
    expires_at : str or None
        When it counts no longer, UTC; None: no time was stated, or it was not kept yet.
    """

    job: StoredJob
    key: str
    content_hash: str
    placement: str
    batch_size: int
    accumulation_steps: int
    step_time_s: float
    sync_time_s: float | None
    state: ObservationState = ObservationState.ACCEPTED
    reason: str | None = None
    reporter: str = ""
    received_at: str = ""
    software: tuple[tuple[str, str], ...] = ()
    expires_in_s: float | None = None
    expires_at: str | None = None

    @property
    def ran_out(self) -> bool:
        """Whether it ran out of memory, and has no time."""
        return self.step_time_s == math.inf


#: Of rows: it ran out of memory; written as the index of those is, or it would not be used.
HAS_RUN_OUT = OBSERVATIONS.c.step_time_s > literal_column(RAN_OUT_BEYOND_S)
#: Of rows: it was measured, and did not.
IS_MEASURED = OBSERVATIONS.c.step_time_s < math.inf


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservationFilter:
    """Which observations are meant: those to which all of it applies; what is None, applies.

    Parameters
    ----------
    family : str or None
        Of their jobs.
    after, before : str or None
        They were received then or later, and earlier than that; UTC, as ``received_at``.
    expired_at : str or None
        They said that they would count no longer then.
    measured : True or None
        True: they did not run out of memory.
    """

    family: str | None = None
    key: str | None = None
    reporter: str | None = None
    state: ObservationState | None = None
    after: str | None = None
    before: str | None = None
    expired_at: str | None = None
    measured: Literal[True] | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what holds for the rows that are meant."""
        table = OBSERVATIONS.c
        stated = (
            (self.family, table.family == self.family),
            (self.key, table.key == self.key),
            (self.reporter, table.reporter == self.reporter),
            (self.state, table.state == self.state),
            (self.after, table.received_at >= (self.after or "")),
            (self.before, table.received_at < (self.before or "")),
            (self.expired_at, table.expires_at <= (self.expired_at or "")),
            (self.measured, IS_MEASURED),
        )
        return [condition for value, condition in stated if value is not None]


#: All of them.
EVERY_OBSERVATION = ObservationFilter()

"""Accepted observations as something to learn from, and whether they still are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import orjson
from sqlalchemy import select

from perfmodel.store.sql.shared_store import SharedStore, record_from
from perfmodel.store.sql.tables import CAMPAIGN_TASKS, JOBS, OBSERVATIONS
from perfmodel.store.state.observation_records import IS_MEASURED, ObservationState

#: Rows of one look.
_AT_ONCE = 2_000


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedObservation:
    """A measured step that somebody reported.

    Parameters
    ----------
    number : int
        Of its row; never used again for another.
    job, placement : str
        As JSON.
    """

    number: int
    job: str
    placement: str
    batch_size: int
    accumulation_steps: int
    step_time_s: float
    reporter: str
    received_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CampaignRecord:
    """A record that a task of a campaign left in a folder."""

    campaign: str
    accelerator: str
    workload_hash: str
    measured_at: str
    folder: str


class ObservedDataStore(SharedStore):
    """Reads what was observed and what campaigns measured."""

    def newest_accepted(self, most: int) -> list[AcceptedObservation]:
        """Return the newest accepted steps with their jobs, oldest first.

        Those that ran out of memory teach no time.
        """
        found: list[AcceptedObservation] = []
        for rows in self._accepted():
            found += rows
            if len(found) >= most:
                break
        return found[:most][::-1]

    def _accepted(self) -> Iterator[list[AcceptedObservation]]:
        table, before = OBSERVATIONS.c, None
        query = (
            select(OBSERVATIONS, JOBS.c.content)
            .join(JOBS, table.job_ref == JOBS.c.ref)
            .where(table.state == ObservationState.ACCEPTED.value, IS_MEASURED)
            .order_by(table.id.desc())
            .limit(_AT_ONCE)
        )
        while True:
            some = query if before is None else query.where(table.id < before)
            rows = self._rows(some)
            if not rows:
                return
            before = rows[-1].id
            yield [
                record_from(AcceptedObservation, row, number=row.id, job=row.content)
                for row in rows
            ]

    def taken_back(self, numbers: Collection[int]) -> set[int]:
        """Return which observations were removed or do not count any more."""
        table, listed = OBSERVATIONS.c, sorted(numbers)
        left = set(listed)
        for start in range(0, len(listed), _AT_ONCE):
            query = select(table.id).where(
                table.id.in_(listed[start : start + _AT_ONCE]),
                table.state == ObservationState.ACCEPTED.value,
            )
            left -= set(self._column(query))
        return left

    def campaign_records(self) -> list[CampaignRecord]:
        """Return where finished tasks of campaigns left their records."""
        table = CAMPAIGN_TASKS.c
        query = select(table.campaign, table.outcome).where(table.outcome.is_not(None))
        found = []
        for campaign, outcome in self._rows(query.order_by(table.id)):
            said = orjson.loads(outcome)
            names = ("accelerator", "workload_hash", "measured_at", "folder")
            if all(isinstance(said.get(name), str) for name in names):
                found.append(
                    CampaignRecord(campaign=campaign, **{name: said[name] for name in names})
                )
        return found

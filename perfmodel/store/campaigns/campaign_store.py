"""Campaigns: made, listed, cancelled, and counted."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import and_, case, func, insert, select, update

from perfmodel.store.campaigns.campaign_records import (
    Campaign,
    CampaignState,
    Counts,
    NewTask,
    Task,
    TaskState,
)
from perfmodel.store.sql.connections import ExistsError, now
from perfmodel.store.sql.leases import new_work
from perfmodel.store.sql.shared_store import Page, SharedStore, as_column, record_from
from perfmodel.store.sql.tables import CAMPAIGN_TASKS, CAMPAIGNS

#: Rows of one statement: databases bound the number of values.
_ROWS = 500
#: Time in which the largest campaign is entered, seconds.
_LIMIT_S = 60.0


class CampaignStore(SharedStore):
    """Keeps campaigns."""

    def create(
        self,
        name: str,
        tasks: Sequence[NewTask],
        *,
        policy: Mapping[str, Any],
        title: str = "",
        budget_s: float | None = None,
        caller: str = "",
    ) -> bool:
        """Keep a new campaign, whose tasks are begun in the order given.

        Returns
        -------
        bool
            False where one of that name was there before, which stays as it is.
        """
        begun = now()
        campaign = {
            "name": name, "title": title, "state": CampaignState.OPEN.value,
            "policy": as_column(policy), "budget_s": budget_s, "spent_s": 0.0,
            "caller": caller, "created_at": begun, "updated_at": begun,
        }  # fmt: skip
        rows = [
            {
                **new_work(secrets.token_hex(12)), "campaign": name,
                "accelerator": task.accelerator, "job": as_column(task.job), "turn": float(turn),
                "checked": False,
            }
            for turn, task in enumerate(tasks)
        ]  # fmt: skip
        try:
            with self._connections.writing(limit_s=_LIMIT_S) as connection:
                connection.execute(insert(CAMPAIGNS).values(**campaign))
                for start in range(0, len(rows), _ROWS):
                    connection.execute(insert(CAMPAIGN_TASKS), rows[start : start + _ROWS])
        except ExistsError:
            return False
        return True

    def find(self, name: str) -> Campaign | None:
        """Return a campaign, or None."""
        return self._find(select(CAMPAIGNS).where(CAMPAIGNS.c.name == name), _campaign)

    def page(self, *, cursor: str | None = None, limit: int = 100) -> Page[Campaign]:
        """Return some campaigns, newest first."""
        return self._page(select(CAMPAIGNS), CAMPAIGNS.c.id, _campaign, cursor=cursor, limit=limit)

    def cancel(self, name: str) -> bool:
        """End a campaign: what waits is not begun, what runs has no result; False without it."""
        table, stopped = CAMPAIGN_TASKS.c, {"state": TaskState.CANCELLED.value, "updated_at": now()}
        is_open = table.state.in_((TaskState.WAITING.value, TaskState.RUNNING.value))
        with self._connections.writing() as connection:
            found = connection.execute(
                update(CAMPAIGNS)
                .where(CAMPAIGNS.c.name == name)
                .values(state=CampaignState.CANCELLED.value, updated_at=now())
            )
            connection.execute(
                update(CAMPAIGN_TASKS).where(table.campaign == name, is_open).values(**stopped)
            )
        return found.rowcount > 0

    def tasks(
        self,
        campaign: str,
        *,
        state: TaskState | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Task]:
        """Return some tasks of a campaign, those entered last first."""
        query = select(CAMPAIGN_TASKS).where(CAMPAIGN_TASKS.c.campaign == campaign)
        if state is not None:
            query = query.where(CAMPAIGN_TASKS.c.state == state.value)
        return self._page(query, CAMPAIGN_TASKS.c.id, _task, cursor=cursor, limit=limit)

    def all_tasks(self, campaign: str, *, changed_since: str = "") -> list[Task]:
        """Return the tasks of a campaign that changed at a time (UTC, ISO 8601) or later."""
        table = CAMPAIGN_TASKS.c
        query = select(CAMPAIGN_TASKS).where(
            table.campaign == campaign, table.updated_at >= changed_since
        )
        return [_task(row) for row in self._rows(query.order_by(table.turn, table.id))]

    def counts(self, campaign: str) -> Counts:
        """Return how far a campaign is."""
        table = CAMPAIGN_TASKS.c
        took = case((table.elapsed_s > 0, table.elapsed_s))
        states = (
            select(
                table.state, func.count(), func.count(table.doubt), func.count(took), func.sum(took)
            )
            .where(table.campaign == campaign)
            .group_by(table.state)
        )
        running = and_(table.campaign == campaign, table.state == TaskState.RUNNING.value)
        workers = select(func.count(func.distinct(table.owner))).where(running)
        with self._connections.reading() as connection:
            rows = connection.execute(states).all()
            owners = int(connection.execute(workers).scalar_one())
        found = {TaskState(row[0]): int(row[1]) for row in rows}
        measured = sum(row[3] for row in rows)
        return Counts(
            by_state={state: found.get(state, 0) for state in TaskState},
            doubtful=sum(row[2] for row in rows),
            workers=owners,
            mean_s=sum(row[4] or 0.0 for row in rows) / measured if measured else None,
        )

    def set_turns(self, turns: Mapping[str, float]) -> None:
        """Change the order in which waiting tasks are begun: turns by name, lowest first."""
        table = CAMPAIGN_TASKS.c
        with self._connections.writing() as connection:
            for name, turn in turns.items():
                connection.execute(
                    update(CAMPAIGN_TASKS)
                    .where(table.name == name, table.state == TaskState.WAITING.value)
                    .values(turn=turn)
                )


_campaign = partial(record_from, Campaign)
_task = partial(record_from, Task)

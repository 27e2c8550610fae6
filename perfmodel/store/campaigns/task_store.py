"""Tasks of campaigns as work: taken on, renewed, given back, ended once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select, update

from perfmodel.store.campaigns.campaign_records import CampaignState, Task, TaskState
from perfmodel.store.sql.connections import now
from perfmodel.store.sql.leases import LeasedStore
from perfmodel.store.sql.shared_store import as_column, record_from
from perfmodel.store.sql.tables import CAMPAIGN_TASKS, CAMPAIGNS

#: A task that lost its worker so often took it with it, and is set aside.
MOST_ATTEMPTS = 2

_TASK = CAMPAIGN_TASKS.c


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which tasks a worker can do.

    Parameters
    ----------
    accelerators : collection of str
        Words that its device answers to: its name, its kind, ``"any"``.
    campaign : str or None
        Of this campaign only.
    """

    accelerators: Collection[str]
    campaign: str | None = None

    @property
    def tasks(self) -> ColumnElement[bool]:
        """What holds for them."""
        wanted = _TASK.accelerator.in_(self.accelerators)
        return wanted if self.campaign is None else and_(wanted, _TASK.campaign == self.campaign)


class TaskStore(LeasedStore):
    """Gives tasks to workers, and takes what came of them."""

    work = CAMPAIGN_TASKS

    def claim(self, owner: str, wanted: Wanted, *, lease_s: float) -> Task | None:
        """Take on the task whose turn it is, or that has lost its worker; None without any.

        Those of the campaign made first come first; one whose time is spent, or that was
        cancelled, gives none.
        """

        def due(connection: Connection) -> Select[tuple[int]]:
            free = self._may_be_taken(connection, most_attempts=MOST_ATTEMPTS)
            order = (CAMPAIGNS.c.id, _TASK.turn, _TASK.id)
            return _may_begin(select(_TASK.id)).where(free, wanted.tasks).order_by(*order)

        row = self._take(owner, due, lease_s=lease_s)
        return None if row is None else record_from(Task, row)

    def finish(
        self, claim: Task, outcome: Mapping[str, Any], *, machine: str, elapsed_s: float
    ) -> bool:
        """Keep what was measured; False where somebody else has the task by now."""
        return self._end(
            claim,
            state=TaskState.DONE,
            elapsed_s=elapsed_s,
            machine=machine,
            outcome=as_column(outcome),
            reason=None,
        )

    def fail(self, claim: Task, reason: str, *, machine: str, elapsed_s: float) -> bool:
        """Keep why a task could not be measured; False where somebody else has it by now."""
        return self._end(
            claim, state=TaskState.FAILED, elapsed_s=elapsed_s, machine=machine, reason=reason
        )

    def set_aside_lost(self) -> int:
        """Set tasks aside that took their workers with them; return how many those were."""
        reason = (
            f"Its worker was lost {MOST_ATTEMPTS} times while it ran (killed, out of memory, or "
            "the machine went down). Make it smaller and enter it in a new campaign."
        )
        return self._give_up(MOST_ATTEMPTS, state=TaskState.SET_ASIDE.value, reason=reason)

    def has_open(self, wanted: Wanted) -> bool:
        """Tell whether something waits or runs that a worker could do, now or later."""
        is_waiting = _TASK.state == TaskState.WAITING.value
        is_running = _TASK.state == TaskState.RUNNING.value
        query = select(_TASK.id).join(CAMPAIGNS, CAMPAIGNS.c.name == _TASK.campaign)
        query = query.where(wanted.tasks, or_(is_running, and_(is_waiting, _begins())))
        return self._has(query)

    def unchecked(self, campaign: str, machine: str) -> list[Mapping[str, Any]]:
        """Return what was measured on a machine since its last reference, in that order."""
        query = select(_TASK.outcome).where(_is_unchecked(campaign, machine))
        rows = self._column(query.order_by(_TASK.updated_at, _TASK.id))
        return [orjson.loads(outcome) for outcome in rows]

    def measured_on(self, machine: str) -> list[str]:
        """Return the names of the campaigns that a machine has measured something of."""
        query = select(_TASK.campaign).where(_TASK.machine == machine).distinct()
        return self._column(query.order_by(_TASK.campaign))

    def judged(self, campaign: str, machine: str) -> dict[str, str | None]:
        """Return why records of a machine are noisy, or None, by job key, once that is known."""
        query = select(_TASK.outcome, _TASK.doubt).where(
            _on(campaign, machine), _TASK.checked.is_(True)
        )
        return {orjson.loads(outcome)["key"]: doubt for outcome, doubt in self._rows(query)}

    def check(self, campaign: str, machine: str, *, doubt: str | None) -> int:
        """Say of those what the reference that followed them showed.

        Parameters
        ----------
        doubt : str or None
            Why they are noisy; None where the machine was as it should be.
        """
        return self._write(
            update(CAMPAIGN_TASKS)
            .where(_is_unchecked(campaign, machine))
            .values(checked=True, doubt=doubt, updated_at=now())
        )

    def _end(self, claim: Task, *, state: TaskState, elapsed_s: float, **values: Any) -> bool:
        with self._connections.writing() as connection:
            ended = self._write_held(
                connection, claim, state=state.value, elapsed_s=elapsed_s, **values
            )
            if ended:
                add_spent(connection, claim.campaign, elapsed_s)
        return ended


def add_spent(connection: Connection, campaign: str, elapsed_s: float) -> None:
    """Count time of measuring towards the budget of a campaign."""
    connection.execute(
        update(CAMPAIGNS)
        .where(CAMPAIGNS.c.name == campaign)
        .values(spent_s=CAMPAIGNS.c.spent_s + elapsed_s, updated_at=now())
    )


def _on(campaign: str, machine: str) -> ColumnElement[bool]:
    is_done = _TASK.state == TaskState.DONE.value
    return and_(_TASK.campaign == campaign, _TASK.machine == machine, is_done)


def _is_unchecked(campaign: str, machine: str) -> ColumnElement[bool]:
    return and_(_on(campaign, machine), _TASK.checked.is_(False))


def _may_begin(query: Select[tuple[int]]) -> Select[tuple[int]]:
    return query.join(CAMPAIGNS, CAMPAIGNS.c.name == _TASK.campaign).where(_begins())


def _begins() -> ColumnElement[bool]:
    table = CAMPAIGNS.c
    has_time = or_(table.budget_s.is_(None), table.spent_s < table.budget_s)
    return and_(table.state == CampaignState.OPEN.value, has_time)

"""What is kept of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from perfmodel.store.sql import leases


class CampaignState(StrEnum):
    """What was said of a campaign; how far it is follows from its tasks."""

    OPEN = "open"
    CANCELLED = "cancelled"


class TaskState(StrEnum):
    """Where a task stands."""

    WAITING = leases.WAITING
    RUNNING = leases.RUNNING
    DONE = "done"
    FAILED = "failed"
    SET_ASIDE = "set_aside"
    """It took its workers with it, and is not begun again."""
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Whether something may still come of it."""
        return self in (TaskState.WAITING, TaskState.RUNNING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Campaign:
    """A list of workloads to measure.

    Parameters
    ----------
    name : str
        By which it is asked for.
    title : str
        For people.
    policy : mapping
        How it is measured, as :class:`perfmodel.campaigns.policy.CampaignPolicy` writes it.
    budget_s : float or None
        Time after which no task is begun, summed over all devices, seconds.
    spent_s : float
        Time that measuring has taken so far, seconds.
    caller : str
        Identifier of the key that made it; empty at the command line.
    """

    name: str
    title: str
    state: CampaignState
    policy: Mapping[str, Any]
    budget_s: float | None
    spent_s: float
    caller: str
    created_at: str
    updated_at: str

    @property
    def is_spent(self) -> bool:
        """Whether no task may be begun any more for want of time."""
        return self.budget_s is not None and self.spent_s >= self.budget_s


@dataclass(frozen=True, kw_only=True, slots=True)
class NewTask:
    """A task as it is entered.

    Parameters
    ----------
    accelerator : str
        What may measure it: an accelerator of the catalogue, a kind of them (``"cpu"``), ``"any"``.
    job : mapping
        As from :func:`~perfmodel.graph.job.stated_fields`.
    """

    accelerator: str
    job: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A workload of a campaign.

    Parameters
    ----------
    attempts : int
        How often it was begun. What an earlier attempt brings after it was taken to be lost is
        dropped.
    machine : str or None
        What measured it: host and accelerator.
    elapsed_s : float or None
        Time that measuring it took, 0 where its record was there already, seconds.
    outcome : mapping or None
        Of a finished one: what was measured, and where the record lies.
    reason : str or None
        Of one that has failed or was set aside: why.
    checked : bool
        The reference was measured on the machine afterwards.
    doubt : str or None
        Why its record is noisy although its samples do not say so.
    """

    name: str
    campaign: str
    accelerator: str
    job: Mapping[str, Any]
    turn: float
    state: TaskState
    owner: str
    attempts: int
    machine: str | None
    elapsed_s: float | None
    outcome: Mapping[str, Any] | None
    reason: str | None
    checked: bool
    doubt: str | None
    created_at: str
    updated_at: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """How far a campaign is.

    Parameters
    ----------
    by_state : mapping of TaskState to int
        Every state is there.
    doubtful : int
        Finished tasks whose records are noisy because the machine drifted.
    workers : int
        Those that work on it now.
    mean_s : float or None
        Mean time of the tasks measured so far; None before the first, seconds.
    """

    by_state: Mapping[TaskState, int]
    doubtful: int
    workers: int
    mean_s: float | None

    @property
    def total(self) -> int:
        """Tasks in all."""
        return sum(self.by_state.values())

    @property
    def open(self) -> int:
        """Tasks of which something may still come."""
        return sum(number for state, number in self.by_state.items() if state.is_open)

"""Alarms as values: what is alarming, since when, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class AlarmState(StrEnum):
    """Whether an alarm still stands."""

    OPEN = "open"
    #: The residuals are fine again, or what it rested on was taken back.
    ENDED = "ended"


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """One thing to do about an alarm.

    Parameters
    ----------
    action : str
        ``calibrate``, ``probe``, ``retrain``, ``examine`` or ``exclude``.
    why : str
        What it does.
    command : str
        The very command.
    """

    action: str
    why: str
    command: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Doubt:
    """A job on an accelerator that an alarm makes doubtful.

    Parameters
    ----------
    job : str
        Reference of a registered job.
    """

    job: str
    batch_size: int
    accelerator: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    """One group of residuals that is not what it was, from one observation on.

    Parameters
    ----------
    name : str
        Stands for the alarm.
    kind, value : str
        The smallest group that explains it: ``accelerator`` ``T4``, ``software`` ``torch 2.9``,
        ``job_class`` ``training of convolutions``, ``reporter`` ``4f1c``, ``all`` ``all``.
    shift : float
        Mean of ln(measured / predicted) of the group since then.
    count : int
        Residuals of the group since then, until it was opened.
    since_observation, opened_observation : int
        Rows of the observations with which the change began and was seen.
    since, opened_at : str
        When these were received; UTC, ISO 8601.
    also : tuple of str
        Other groups that explain it nearly as well, ``"<kind> <value>"``.
    told : str or None
        The last state of it that a webhook was sent.
    """

    name: str
    kind: str
    value: str
    state: AlarmState
    shift: float
    count: int
    since_observation: int
    opened_observation: int
    since: str
    opened_at: str
    ended_at: str | None = None
    ended_because: str | None = None
    acknowledged_by: str | None = None
    acknowledged_at: str | None = None
    note: str | None = None
    also: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    told: str | None = None

    def to_dict(self) -> Mapping[str, Any]:
        """Return it as plain JSON values, for people and programs."""
        plain = asdict(self)
        for hidden in ("since_observation", "opened_observation", "told"):
            del plain[hidden]
        return {"id": plain.pop("name"), **plain, "state": self.state.value}

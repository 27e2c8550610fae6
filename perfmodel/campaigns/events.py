"""What a worker says of its work."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from perfmodel.graph.job import Job


class WorkEventKind(StrEnum):
    """What happened."""

    STARTED = "started"
    FINISHED = "finished"
    HELD = "held"
    """The folder held its record already: nothing was measured."""
    FAILED = "failed"
    SUPERSEDED = "superseded"
    """It was cancelled, or somebody else has it: what was measured is dropped."""
    PUT_BACK = "put_back"
    SET_ASIDE = "set_aside"
    REFERENCE = "reference"
    DEVICE_BUSY = "device_busy"
    OTHERS_WORK = "others_work"
    """Nothing waits, but what others have begun may come back."""
    CLUSTER = "cluster"
    """Workers on other machines come and go."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkEvent:
    """One line of progress.

    Parameters
    ----------
    campaign : str
        Its name; empty where none is meant.
    text : str
        What there is to say for people.
    step_time_s : float or None
        Of what was measured, seconds.
    """

    kind: WorkEventKind
    campaign: str = ""
    task: str = ""
    job: Job | None = None
    text: str = ""
    step_time_s: float | None = None
    noisy: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain JSON types."""
        return {
            "event": self.kind.value,
            "campaign": self.campaign,
            "task": self.task,
            "model": None if self.job is None else self.job.label,
            "text": self.text,
            "step_time_s": self.step_time_s,
            "noisy": self.noisy,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkReport:
    """What a worker did.

    Parameters
    ----------
    finished, held, failed, superseded : int
        Tasks measured, found measured before, that could not be, and whose result was dropped.
    elapsed_s : float
        From its begin to its end, seconds.
    """

    finished: int
    held: int
    failed: int
    superseded: int
    elapsed_s: float

    @property
    def ended(self) -> int:
        """Tasks of which something came."""
        return self.finished + self.held + self.failed

"""An observed step of a job: what a user, a scheduler or a profiler has seen it reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.graph.job import Job
from perfmodel.placement.topology.topology import Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One cell of a job that was measured.

    Parameters
    ----------
    batch_size : int
        Samples per replica and micro-batch.
    step_time_s : float
        Whole step, all micro-batches.
    sync_time_s : float or None
        The part of it logged as synchronisation of gradients.
    accumulation_steps : int
        Micro-batches of the step.
    job : Job or None
        The job that was measured, where it is another one than the one that is asked about; its
        batch is the one stated here.
    reporter : str
        Who saw it, such as the identity of a key; empty for whoever asks.
    """

    placement: Placement
    batch_size: int
    step_time_s: float
    sync_time_s: float | None = None
    accumulation_steps: int = 1
    job: Job | None = None
    reporter: str = ""

    @property
    def content(self) -> tuple[object, ...]:
        """What sorts observations, whichever came first."""
        return (
            repr(self.placement), self.batch_size, self.accumulation_steps, self.step_time_s,
            -1.0 if self.sync_time_s is None else self.sync_time_s, self.reporter,
            "" if self.job is None else repr(self.job),
        )  # fmt: skip


def heard(observations: Sequence[Observation]) -> list[Observation]:
    """Return observed steps of a job without what others say of cells that whoever asks measured.

    Parameters
    ----------
    observations : sequence of Observation
        Of one job.
    """
    measured = {_cell(one) for one in observations if not one.reporter}
    return [one for one in observations if not one.reporter or _cell(one) not in measured]


def _cell(seen: Observation) -> tuple[object, ...]:
    return seen.placement, seen.batch_size, seen.accumulation_steps

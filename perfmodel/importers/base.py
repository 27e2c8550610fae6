"""What every importer returns: measurements it understood, rows it did not, and why."""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.graph.job import Job


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedStep:
    """Throughput of one job on one accelerator, as somebody else published it.

    Parameters
    ----------
    job : Job
        Enough to capture the graph of what ran.
    accelerator : str
        Catalogue name.
    samples_per_second : float
        Throughput of the one accelerator, > 0.
    source, licence : str
        Where the figure comes from and under which terms.
    """

    job: Job
    accelerator: str
    samples_per_second: float
    source: str
    licence: str

    @property
    def step_time_s(self) -> float:
        """Time of one step: batch size over throughput."""
        return self.job.batch_size / self.samples_per_second


@dataclass(frozen=True, kw_only=True, slots=True)
class RejectedRow:
    """A row that could not be understood; never guessed at.

    Parameters
    ----------
    file : str
        File name.
    line : int
        Line in the file, from 1; 0 for the file as a whole.
    reason : str
    """

    file: str
    line: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """All that one import returned."""

    steps: tuple[PublishedStep, ...]
    rejected: tuple[RejectedRow, ...]

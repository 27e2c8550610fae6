"""What answers are made from besides graphs and models, and the part of it that takes no time."""

from __future__ import annotations

from typing import Protocol

from perfmodel.graph.job import Job
from perfmodel.graph.job_reference import job_family
from perfmodel.placement.calibration.observation import Observation
from perfmodel.store.state.prices import PriceStore
from service.job_references import JobFinder, JobReferences, ReferencesInMemory


class Remembered(Protocol):
    """What a clerk may look up."""

    @property
    def references(self) -> JobFinder:
        """Registered jobs."""

    @property
    def prices(self) -> PriceStore:
        """Prices that are kept."""

    def observations_of(self, job: Job | str) -> tuple[Observation, ...]:
        """Return what was observed of a job; may wait."""

    def known_observations_of(self, family: str) -> tuple[Observation, ...] | None:
        """Return what was observed of a family of jobs; None where that would have to wait."""

    def observations_of_all(self) -> tuple[Observation, ...]:
        """Return what was observed last of any job; may wait."""

    def known_observations_of_all(self) -> tuple[Observation, ...] | None:
        """Return what was observed last of any job; None where that would have to wait."""


class InMemory:
    """The part of what is remembered that takes no time.

    Parameters
    ----------
    of_types_alone : bool
        Tell no observations but those of jobs that are known by nothing else.
    """

    def __init__(self, whole: Remembered, *, of_types_alone: bool = False) -> None:
        self._whole = whole
        self._of_types_alone = of_types_alone
        self.prices = whole.prices
        found = whole.references
        self.references: JobFinder = (
            ReferencesInMemory(found) if isinstance(found, JobReferences) else found
        )

    def observations_of(self, job: Job | str) -> tuple[Observation, ...]:
        """Return what is known to have been observed; nothing where that would have to wait."""
        if self._of_types_alone and (isinstance(job, str) or job.job_type is None):
            return ()
        return self._whole.known_observations_of(_family(job)) or ()

    def known_observations_of(self, family: str) -> tuple[Observation, ...] | None:
        """Return what is known to have been observed, or None."""
        return () if self._of_types_alone else self._whole.known_observations_of(family)

    def observations_of_all(self) -> tuple[Observation, ...]:
        """Return what is known to have been observed of any job."""
        return self.known_observations_of_all() or ()

    def known_observations_of_all(self) -> tuple[Observation, ...] | None:
        """Return the same, or None where it is not known."""
        if not self._of_types_alone:
            return self._whole.known_observations_of_all()
        seen = self._whole.known_observations_of_all() or ()
        return tuple(one for one in seen if one.job is not None and one.job.job_type is not None)


def _family(job: Job | str) -> str:
    return job if isinstance(job, str) else job_family(job)

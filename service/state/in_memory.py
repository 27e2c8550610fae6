"""What answers are made from besides graphs and models, and the part of it that takes no time."""

from __future__ import annotations

from perfmodel.graph.job import Job
from perfmodel.graph.job_identity import job_family
from perfmodel.placement.calibration.observation import Observation
from perfmodel.store.state.prices import PriceStore
from service.state.job_references import JobFinder, JobReferences, ReferencesInMemory
from service.state.state import State


class InMemoryState:
    """The part of what is remembered that takes no time.

    Parameters
    ----------
    of_types_alone : bool
        Tell no observations but those of jobs that are known by nothing else.
    """

    def __init__(self, whole: AnyState, *, of_types_alone: bool = False) -> None:
        self._whole = whole
        self._of_types_alone = of_types_alone
        self.prices: PriceStore = whole.prices
        found: JobFinder = whole.references
        self.references: JobFinder = (
            ReferencesInMemory(found) if isinstance(found, JobReferences) else found
        )

    def observations_of(self, job: Job | str) -> tuple[Observation, ...]:
        """Return what is known to have been observed; nothing where that would have to wait."""
        if self._of_types_alone and (isinstance(job, str) or job.job_type is None):
            return ()
        family = job if isinstance(job, str) else job_family(job)
        return self._whole.known_observations_of(family) or ()

    def known_observations_of(self, family: str) -> tuple[Observation, ...] | None:
        """Return what is known to have been observed, or None."""
        return () if self._of_types_alone else self._whole.known_observations_of(family)

    def observations_of_all(self) -> tuple[Observation, ...]:
        """Return what is known to have been observed of any job."""
        return self.known_observations_of_all() or ()

    def known_observations_of_all(self) -> tuple[Observation, ...] | None:
        """Return the same, or None where it is not known."""
        seen = self._whole.known_observations_of_all()
        if not self._of_types_alone:
            return seen
        return tuple(one for one in seen or () if one.job is not None and one.job.job_type)


#: What an answer may rest on: registered jobs, prices, observations. What is *known* is in memory,
#: or None where it would have to be waited for; all else may wait.
AnyState = State | InMemoryState

"""What answers are made from besides graphs and models, and the part of it that takes no time."""

from __future__ import annotations

from perfmodel.placement.calibration.observation import Observation
from perfmodel.store.state.observation_feed import ObservationFeed
from perfmodel.store.state.prices import PriceStore
from service.state.state import JobFinder, JobReferences, ReferencesInMemory, State


class InMemoryState:
    """The part of what is remembered that takes no time.

    What was observed counts for job types alone, which are known by nothing else.
    """

    def __init__(self, whole: AnyState) -> None:
        self.prices: PriceStore = whole.prices
        found: JobFinder = whole.references
        self.references: JobFinder = (
            ReferencesInMemory(found) if isinstance(found, JobReferences) else found
        )
        self.feed: FeedInMemory = FeedInMemory(whole.feed)


class FeedInMemory:
    """Tells what is known to have been observed; nothing where that would have to wait."""

    def __init__(self, whole: ObservationFeed[Observation] | FeedInMemory) -> None:
        self._whole = whole

    def known(self, family: str) -> tuple[Observation, ...] | None:
        """Return what was observed of a family, or None."""
        return self._whole.known(family)

    def known_of_all(self) -> tuple[Observation, ...]:
        """Return what was observed of job types."""
        seen = self._whole.known_of_all() or ()
        return tuple(one for one in seen if one.job is not None and one.job.job_type)

    def of(self, family: str) -> tuple[Observation, ...]:
        """Return what was observed of a family."""
        return self._whole.known(family) or ()

    def of_all(self) -> tuple[Observation, ...]:
        """Return what was observed of job types."""
        return self.known_of_all()


#: What an answer may rest on: registered jobs, prices, observations. What is *known* is in memory,
#: or None where it would have to be waited for; all else may wait.
AnyState = State | InMemoryState

"""What the stored observations of a job say about it, worked out once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import Estimator, PreparedJob
from perfmodel.estimator.lru import LruCache
from perfmodel.estimator.observed import ObservedJob
from perfmodel.graph.job import Job
from perfmodel.graph.job_reference import job_family
from perfmodel.placement.calibration.observation import Observation

logger = logging.getLogger(__name__)


class ObservationSource(Protocol):
    """Where stored observations come from."""

    def observations_of(self, job: Job | str) -> tuple[Observation, ...]:
        """Return those of a job or of a family of jobs; may wait."""

    def known_observations_of(self, family: str) -> tuple[Observation, ...] | None:
        """Return the same from memory, or None."""


class ObservedJobs:
    """Calibrates jobs by their stored observations, again only where some were added.

    Parameters
    ----------
    estimator : Estimator
    state : ObservationSource
    """

    def __init__(self, estimator: Estimator, state: ObservationSource) -> None:
        self._estimator = estimator
        self._state = state
        self._families: LruCache[str, str] = LruCache(20_000)
        self._observed: LruCache[str, tuple[tuple[Observation, ...], ObservedJob | None]] = (
            LruCache(2_048)
        )

    def of(self, prepared: PreparedJob) -> ObservedJob | None:
        """Return a job as its stored observations let it appear; None where there are none.

        May wait for the database and for the calibration.

        Parameters
        ----------
        prepared : PreparedJob
        """
        seen = self._state.observations_of(self._family(prepared))
        if not seen:
            return None
        known = self._observed.get(prepared.key)
        if known is None or known[0] is not seen:
            known = (seen, self._weighed(prepared, seen))
            self._observed.put(prepared.key, known)
        return known[1]

    def counting(self, job: Job) -> tuple[Observation, ...]:
        """Return the stored observations that answers about a job may rest on.

        Those are left out that cannot be any more, because a device was changed or removed since.

        Parameters
        ----------
        job : Job
            May be known by its type alone.
        """
        seen = self._state.observations_of(job)
        if not seen:
            return ()
        if job.job_type is not None:
            return tuple(one for one in seen if self._resolves(one))
        try:
            observed = self.of(self._estimator.prepare(job))
        except PerfModelError:
            # What is wrong with the job is said where it is answered.
            return seen
        return () if observed is None else observed.observations

    def known(self, prepared: PreparedJob) -> tuple[bool, ObservedJob | None]:
        """Return whether :meth:`of` would answer from memory, and what; never waits."""
        seen = self._state.known_observations_of(self._family(prepared))
        if seen is None:
            return False, None
        if not seen:
            return True, None
        known = self._observed.get(prepared.key)
        return (False, None) if known is None or known[0] is not seen else (True, known[1])

    def _family(self, prepared: PreparedJob) -> str:
        family = self._families.get(prepared.key)
        if family is None:
            family = job_family(prepared.job)
            self._families.put(prepared.key, family)
        return family

    def _weighed(self, prepared: PreparedJob, seen: Sequence[Observation]) -> ObservedJob | None:
        try:
            return self._estimator.observed(prepared, seen)
        except InvalidInputError as error:
            # They were weighed when they came in; since then a model or a device has changed.
            logger.warning("an observation of %s counts no longer: %s", prepared.job.label, error)
        return self._estimator.observed(prepared, [one for one in seen if self._ok(prepared, one)])

    def _resolves(self, seen: Observation) -> bool:
        try:
            self._estimator.resolve(seen.placement)
        except InvalidInputError:
            return False
        return True

    def _ok(self, prepared: PreparedJob, seen: Observation) -> bool:
        try:
            self._estimator.observed(prepared, [seen])
        except InvalidInputError:
            return False
        return True

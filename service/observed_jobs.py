"""What the stored observations of a job say about it, worked out once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import Estimator, PreparedJob
from perfmodel.estimator.evidence.observed import ObservedJob
from perfmodel.estimator.evidence.other_jobs import Companions
from perfmodel.estimator.job_types.job_type import OpaqueJob
from perfmodel.estimator.jobs.prepared_job import job_key
from perfmodel.graph.job import Job
from perfmodel.graph.job_reference import job_family
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation

logger = logging.getLogger(__name__)

#: Observed jobs whose calibrations are kept; one takes up to a megabyte. Those of job types may
#: hold tables of cells as well.
_MOST_JOBS, _MOST_TYPES = 1_024, 256


class ObservationSource(Protocol):
    """Where stored observations come from."""

    def observations_of(self, job: Job | str) -> tuple[Observation, ...]:
        """Return those of a job or of a family of jobs; may wait."""

    def known_observations_of(self, family: str) -> tuple[Observation, ...] | None:
        """Return the same from memory, or None."""

    def observations_of_all(self) -> tuple[Observation, ...]:
        """Return those of all jobs, each with its job; may wait."""

    def known_observations_of_all(self) -> tuple[Observation, ...] | None:
        """Return the same from memory, or None."""


class _Observed(NamedTuple):
    """A job as it was observed, and what that was made of."""

    seen: tuple[Observation, ...]
    companions: Companions
    job: ObservedJob | None


class _Type(NamedTuple):
    """A job type as it was observed, and what that was made of."""

    seen: tuple[Observation, ...]
    companions: Companions
    job: OpaqueJob


class ObservedJobs:
    """Calibrates jobs by stored observations, again only where some were added."""

    def __init__(self, estimator: Estimator, state: ObservationSource) -> None:
        self._estimator = estimator
        self._state = state
        self._families: LruCache[str, str] = LruCache(20_000)
        self._observed: LruCache[str, _Observed] = LruCache(_MOST_JOBS)
        self._types: LruCache[str, _Type] = LruCache(_MOST_TYPES)
        self._companions = Companions(estimator, ())

    def of(self, prepared: PreparedJob) -> ObservedJob | None:
        """Return a job as the stored observations let it appear; None where there are none.

        May wait for the database and for the calibration.
        """
        seen, companions = self._state.observations_of(self._family(prepared)), self.companions()
        if not seen and not companions:
            return None
        known = self._observed.get(prepared.key)
        if known is None or known.seen is not seen:
            job = self._weighed(prepared, seen, companions)
            known = _Observed(seen, companions, job)
            self._observed.put(prepared.key, known)
        elif known.companions is not companions:
            job = known.job and known.job.with_companions(companions)
            known = _Observed(seen, companions, job)
            self._observed.put(prepared.key, known)
        return known.job

    def of_type(self, job: Job) -> OpaqueJob:
        """Return a job that is known by its type alone, with what is stored of it and of others.

        Parameters
        ----------
        job : Job
            With a ``job_type``.
        """
        seen, companions = self._state.observations_of(job), self.companions()
        key = job_key(job)
        known = self._types.get(key)
        if known is None or known.seen is not seen:
            found = self._estimator.opaque(job, self.counting(job), companions)
            known = _Type(seen, companions, found)
            self._types.put(key, known)
        elif known.companions is not companions:
            known = _Type(seen, companions, known.job.with_companions(companions))
            self._types.put(key, known)
        return known.job

    def companions(self) -> Companions:
        """Return what was observed of all jobs; the same object until something is added."""
        seen = self._state.observations_of_all()
        known = self._companions
        if known.observations is not seen:
            known = self._companions = Companions(self._estimator, seen, previous=known)
        return known

    def counting(self, job: Job) -> tuple[Observation, ...]:
        """Return the stored observations that answers about a job may rest on.

        Those are left out that cannot be any more, because a device was changed or removed since.

        Parameters
        ----------
        job : Job
            May be known by its type alone.
        """
        seen = self._state.observations_of(job)
        if job.job_type is not None:
            return tuple(one for one in seen if self._resolves(one))
        if not seen:
            return ()
        try:
            observed = self.of(self._estimator.prepare(job))
        except PerfModelError:
            # What is wrong with the job is said where it is answered.
            return seen
        return () if observed is None else observed.observations

    def known(self, prepared: PreparedJob) -> tuple[bool, ObservedJob | None]:
        """Return whether :meth:`of` would answer from memory, and what; never waits."""
        seen = self._state.known_observations_of(self._family(prepared))
        of_all = self._state.known_observations_of_all()
        companions = self._companions
        if seen is None or of_all is None or companions.observations is not of_all:
            return False, None
        if not seen and not companions:
            return True, None
        known = self._observed.get(prepared.key)
        if known is None or known.seen is not seen or known.companions is not companions:
            return False, None
        return True, known.job

    def _family(self, prepared: PreparedJob) -> str:
        family = self._families.get(prepared.key)
        if family is None:
            family = job_family(prepared.job)
            self._families.put(prepared.key, family)
        return family

    def _weighed(
        self, prepared: PreparedJob, seen: Sequence[Observation], companions: Companions
    ) -> ObservedJob | None:
        try:
            return self._estimator.observed(prepared, seen, companions)
        except InvalidInputError as error:
            # They were weighed when they came in; since then a model or a device has changed.
            logger.warning("an observation of %s counts no longer: %s", prepared.job.label, error)
        still = [one for one in seen if self._ok(prepared, one)]
        return self._estimator.observed(prepared, still, companions)

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

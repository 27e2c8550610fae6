"""What the stored observations of a job say about it, worked out once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import Estimator, PreparedJob
from perfmodel.estimator.evidence.observed_job import ObservedJob, observed_job
from perfmodel.estimator.evidence.observed_rows import cells_of, weighed_steps
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.job_types.job_type import ObservedJobType
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.calibration.residual_prior import fitted_prior
from service.state.state import AnyState, InMemoryState

logger = logging.getLogger(__name__)

T = TypeVar("T", ObservedJob | None, ObservedJobType)

#: Observed jobs whose calibrations are kept; one takes up to a megabyte. Those of job types may
#: hold tables of cells as well.
_MOST_JOBS, _MOST_TYPES = 1_024, 256


class _Made(NamedTuple, Generic[T]):
    """What was made of a job, and of what: it is that for as long as these are the same objects."""

    of: tuple[object, ...]
    job: T


class ObservedJobs:
    """Calibrates jobs by stored observations, again only where some were added."""

    def __init__(self, estimator: Estimator, state: AnyState) -> None:
        self._estimator = estimator
        self._feed = state.feed
        # Nothing but job types rests on what is in memory alone.
        self._of_types_alone = isinstance(state, InMemoryState)
        self._observed: LruCache[str, _Made[ObservedJob | None]] = LruCache(_MOST_JOBS)
        self._unobserved: LruCache[str, _Made[ObservedJob | None]] = LruCache(_MOST_JOBS)
        self._types: LruCache[str, _Made[ObservedJobType]] = LruCache(_MOST_TYPES)
        self._told: LruCache[tuple[str, str], bool] = LruCache(_MOST_JOBS)
        self._strangers: Strangers | None = None
        # Read now: the first observation need not wait for it.
        _ = fitted_prior().of_bare_steps

    def of(self, prepared: PreparedJob) -> ObservedJob | None:
        """Return a job as the stored observations let it appear; None where there are none.

        Strangers are asked about where no step was observed of the job itself. May wait for the
        database and for the calibration.
        """
        seen, own = () if self._of_types_alone else self._feed.of(prepared.family), None
        if seen:
            weigh = partial(self._weighed, prepared, seen)
            own = _made(self._observed, prepared.key, (seen,), weigh)
        if own is not None and own.observations:
            return own
        strangers = self.strangers()
        if strangers is None:
            return own
        make = partial(self._unobserved_job, prepared, own, strangers)
        return _made(self._unobserved, prepared.key, (own, strangers), make)

    def _unobserved_job(
        self, prepared: PreparedJob, own: ObservedJob | None, strangers: Strangers
    ) -> ObservedJob | None:
        """Return a job of which no step was observed, with what ran out of memory."""
        seen = () if own is None else own.all_observations
        return observed_job(self._estimator.core, prepared, seen, strangers)

    def of_type(self, job: Job) -> ObservedJobType:
        """Return a job that is known by its type alone, with what is stored of it and of others."""
        seen, strangers = self._feed.of(job.family), self.strangers()

        def make() -> ObservedJobType:
            seen = self.counting(job)
            return ObservedJobType.of(self._estimator.core, job, seen, strangers)

        key = job.reference
        made = _made(self._types, key, (seen,), make)
        if made.strangers is not strangers:
            made = replace(made, strangers=strangers)
            self._types.put(key, _Made((seen,), made))
        return made

    def strangers(self) -> Strangers | None:
        """Return what was observed of all jobs, if anything; the same until something is added."""
        seen = self._feed.of(None)
        known = self._strangers
        if not seen:
            known = self._strangers = None
        elif known is None or known.observations is not seen:
            known = self._strangers = Strangers(self._estimator.core, seen)
        return known

    def counting(self, job: Job | PreparedJob) -> tuple[Observation, ...]:
        """Return the stored observations that answers about a job may rest on.

        Those are left out that cannot be any more, because a device was changed or removed since.
        """
        if isinstance(job, Job) and job.job_type is not None:
            return tuple(one for one in self._feed.of(job.family) if self._resolves(one))
        if self._of_types_alone:
            return ()
        seen = self._feed.of(job.family)
        if not seen:
            return ()
        try:
            observed = self.of(self._estimator.core.prepare(job) if isinstance(job, Job) else job)
        except PerfModelError:
            # What is wrong with the job is said where it is answered.
            return seen
        return () if observed is None else observed.all_observations

    def known(self, prepared: PreparedJob) -> tuple[bool, ObservedJob | None]:
        """Return whether :meth:`of` would answer from memory, and what; never waits."""
        seen, own = self._feed.known(prepared.family), None
        if seen is None:
            return False, None
        if seen:
            known = self._observed.get(prepared.key)
            if known is None or known.of[0] is not seen:
                return False, None
            own = known.job
            if own is not None and own.observations:
                return True, own
        of_all, strangers = self._feed.known(None), self._strangers
        if of_all is None or (() if strangers is None else strangers.observations) is not of_all:
            return False, None
        if strangers is None:
            return True, own
        unobserved = self._unobserved.get(prepared.key)
        if unobserved is None or not _is_same(unobserved.of, (own, strangers)):
            return False, None
        return True, unobserved.job

    def knows(self, job: Job) -> bool:
        """Tell whether what was observed of a job is in memory."""
        return self._feed.known(job.family) is not None

    def _weighed(self, prepared: PreparedJob, seen: Sequence[Observation]) -> ObservedJob | None:
        try:
            return observed_job(self._estimator.core, prepared, seen)
        except InvalidInputError as error:
            # They were weighed when they came in; since then a model or a device has changed.
            self._tell(prepared, error)
        still = [one for one in seen if self._can_be_weighed(prepared, one)]
        return observed_job(self._estimator.core, prepared, still)

    def _tell(self, prepared: PreparedJob, error: InvalidInputError) -> None:
        """Say why observations of a family count no longer: once, whatever is asked about it."""
        reason = (prepared.family, error.message)
        if self._told.get(reason) is None:
            self._told.put(reason, True)
            logger.warning(
                "observations of %s count no longer: %s What was removed may be added again; "
                "DELETE /v1/observations takes them back for good.",
                prepared.job.label,
                error.message,
            )

    def _resolves(self, seen: Observation) -> bool:
        try:
            self._estimator.core.resolve(seen.placement)
        except InvalidInputError:
            return False
        return True

    def _can_be_weighed(self, prepared: PreparedJob, seen: Observation) -> bool:
        try:
            if seen.ran_out:
                cells_of(self._estimator.core, prepared.job, [seen], [""])
            else:
                weighed_steps(self._estimator.core, prepared.job, [seen], [""], "")
        except InvalidInputError:
            return False
        return True


def _made(
    kept: LruCache[str, _Made[T]],
    key: str,
    of: tuple[object, ...],
    make: Callable[[], T],
) -> T:
    """Return a job that is kept, made again where it was made of something else."""
    known = kept.get(key)
    if known is None or not _is_same(known.of, of):
        known = _Made(of, make())
        kept.put(key, known)
    return known.job


def _is_same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return all([one is other for one, other in zip(before, now, strict=True)])

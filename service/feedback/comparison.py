"""Observations beside what was answered just before they counted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import orjson

from perfmodel.errors import PerfModelError
from perfmodel.estimator import PreparedJob
from perfmodel.estimator.evidence.observed_job import ObservedJob, observed_job
from perfmodel.estimator.evidence.strangers import Strangers
from perfmodel.estimator.job_types.job_type import ObservedJobType
from perfmodel.estimator.job_types.job_type_answers import answer_of_type
from perfmodel.estimator.tables.estimates import answer_cell
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.feedback.operator_mix import UNKNOWN, operator_class, operator_mix
from perfmodel.graph.job import Job
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job
from perfmodel.store.feedback import StoredResidual, Uncompared
from perfmodel.store.state.observation_feed import MOST_OF_ALL
from perfmodel.store.state.observation_records import StoredObservation
from service.answering.answerer import Answerer
from service.observations.plausibility import kind_of
from service.observations.predicted_cells import PredictedCells
from service.state.state import State
from service.state.stored_forms import readable_observations

logger = logging.getLogger(__name__)

#: Jobs that are remembered; and what was known of one by one time.
_MOST_JOBS, _MOST_LATELY = 4_096, 64
#: Longest label that is kept.
_MOST_LABEL = 200


class Comparison:
    """Answers again what was observed, as one version did just before; for one thread.

    What counted then, of the job and of all others, is read by the number of the transaction:
    observations that came together counted together.
    """

    def __init__(self, answerer: Answerer, state: State) -> None:
        self.answerer = answerer
        self._estimator = answerer.estimator
        self._state = state
        self._cells = PredictedCells(answerer.estimator, state.references)
        self._jobs: LruCache[str, Job] = LruCache(_MOST_JOBS)
        self._classes: LruCache[str, str] = LruCache(_MOST_JOBS)
        self._counted: LruCache[tuple[str, int], tuple[Observation, ...]] = LruCache(_MOST_LATELY)
        self._weighed: LruCache[tuple[str, int], ObservedJob | None] = LruCache(_MOST_LATELY)
        self._of_all: LruCache[int, Strangers] = LruCache(1)
        # What was weighed before is known by who it is.
        self._read: LruCache[StoredObservation, tuple[Observation, ...]] = LruCache(2 * MOST_OF_ALL)

    def residual(self, one: Uncompared) -> StoredResidual:
        """Return the residual of an observation; without an answer where there is none.

        Raises
        ------
        StoreError
            The database cannot be read.
        """
        seen = one.seen
        (model,) = self._cells.predicted([seen])
        found = StoredResidual(
            observation=one.number,
            accelerator=self._accelerator(one),
            mode="",
            operators=UNKNOWN,
            label="",
            model_version=self.answerer.version,
            software=dict(seen.software),
            model_s=model.step_s if model else None,
            now_version=self.answerer.version,
            now_s=model.step_s if model else None,
        )
        try:
            job = self._job(one)
            found = replace(
                found,
                mode=job.mode.value,
                label=job.label[:_MOST_LABEL],
                software={**job.software, **found.software},
            )
            return self._answered(found, job, one)
        except (PerfModelError, ArithmeticError) as error:
            logger.info("observation %s has no answer beside it: %s", seen.key, error)
            return replace(found, reason=str(error)[:_MOST_LABEL])

    def predicted_now(self, some: Sequence[Uncompared]) -> dict[int, float | None]:
        """Return what this version predicts of some observations, without any, by their rows."""
        found = self._cells.predicted([one.seen for one in some])
        return {
            one.number: answer.step_s if answer else None
            for one, answer in zip(some, found, strict=True)
        }

    def _answered(self, found: StoredResidual, job: Job, one: Uncompared) -> StoredResidual:
        asked = job.at_batch(one.seen.batch_size, one.seen.accumulation_steps)
        placement = self._estimator.core.resolve(parse_placement(orjson.loads(one.seen.placement)))
        before = self._before(one)
        if job.job_type is not None:
            if not before:
                return replace(found, reason="Nothing had been observed of the job type.")
            of_type = ObservedJobType.of(self._estimator.core, asked, before, self._strangers(one))
            return _with_answer(found, answer_of_type(self._estimator.core, of_type, placement))
        core = self._estimator.core
        prepared = core.prepare(asked)
        answer = answer_cell(core, prepared, placement, self._observed(prepared, one, before))
        return _with_answer(replace(found, operators=self._class_of(prepared)), answer)

    def _observed(
        self, prepared: PreparedJob, one: Uncompared, before: Sequence[Observation]
    ) -> ObservedJob | None:
        """Return what was known of a job; observations that came together share it.

        Strangers are heard where no step had been observed of the job itself.
        """
        known = self._weighed.get((prepared.key, one.revision))
        if known is None:
            known = observed_job(self._estimator.core, prepared, before)
            if known is None or not known.observations:
                strangers = self._strangers(one)
                known = observed_job(self._estimator.core, prepared, before, strangers)
            self._weighed.put((prepared.key, one.revision), known)
        return known

    def _strangers(self, one: Uncompared) -> Strangers | None:
        """Return what had been observed of all jobs, if anything."""
        known = self._of_all.get(one.revision)
        if known is None:
            counted = self._state.observations.counting(
                None, most=MOST_OF_ALL, before_revision=one.revision
            )
            seen = [each for stored in counted for each in self._readable(stored)]
            if not seen:
                return None
            known = Strangers(self._estimator.core, seen)
            self._of_all.put(one.revision, known)
        return known

    def _readable(self, stored: StoredObservation) -> tuple[Observation, ...]:
        known = self._read.get(stored)
        if known is None:
            known = readable_observations([stored])
            self._read.put(stored, known)
        return known

    def _before(self, one: Uncompared) -> tuple[Observation, ...]:
        family, revision = one.seen.job.family, one.revision
        known = self._counted.get((family, revision))
        if known is None:
            counted = self._state.observations.counting(family, before_revision=revision)
            known = readable_observations(counted)
            self._counted.put((family, revision), known)
        return known

    def _job(self, one: Uncompared) -> Job:
        known = self._jobs.get(one.seen.job.ref)
        if known is None:
            known = parse_job(orjson.loads(one.seen.job.content))
            self._jobs.put(one.seen.job.ref, known)
        return known

    def _accelerator(self, one: Uncompared) -> str:
        try:
            placement = parse_placement(orjson.loads(one.seen.placement))
            return kind_of(self._estimator.core.resolve(placement))
        except PerfModelError:
            return UNKNOWN

    def _class_of(self, prepared: PreparedJob) -> str:
        known = self._classes.get(prepared.key)
        if known is None:
            known = operator_class(operator_mix(step_sketch(prepared.step.graph)))
            self._classes.put(prepared.key, known)
        return known


def _with_answer(found: StoredResidual, answer: Estimate) -> StoredResidual:
    rate, step_s = answer.throughput, answer.step_time_s
    return replace(
        found,
        predicted_s=step_s,
        low_s=step_s * rate.samples_per_second / rate.high,
        high_s=step_s * rate.samples_per_second / rate.low,
    )

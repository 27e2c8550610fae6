"""The one place where a question becomes an answer: of one version of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import Estimator, MatrixEstimate, PreparedJob
from perfmodel.estimator.evidence.observed import ObservedJob
from perfmodel.estimator.explain.explain import explain_answer
from perfmodel.estimator.explain.explanation import Explanation
from perfmodel.estimator.job_types.job_type import OpaqueJob
from perfmodel.estimator.tables.curve import Curve
from perfmodel.estimator.tables.ranking import Ranking
from perfmodel.graph.job import Job
from perfmodel.graph.job_reference import job_family
from perfmodel.lru import LruCache
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job, parse_query
from service.answering.known import Key, KnownParts, point_at_text
from service.answering.matrix_question import AskedMatrix
from service.answering.remembered import InMemory, Remembered
from service.job_references import resolve_job_reference
from service.observed_jobs import ObservedJobs
from service.questions import AskedPlans, read_curve, read_rank

T = TypeVar("T")

#: Steps that are predicted together: more would keep others from the interpreter for too long.
_AT_ONCE = 64


class Clerk:
    """Answers questions with one version of the model; every answer rests on it alone.

    Whatever it remembers belongs to that version. :meth:`from_memory` never waits; all else may,
    and is for threads.

    Parameters
    ----------
    state : Remembered
        What was registered, observed and priced.
    jobs : LruCache
        Recognises jobs by their bytes; clerks of other versions may share it.
    """

    def __init__(
        self, estimator: Estimator, state: Remembered, jobs: LruCache[Key, PreparedJob]
    ) -> None:
        self.estimator = estimator
        self.known = KnownParts(estimator, jobs)
        self.observed_jobs = ObservedJobs(estimator, state)
        self._state = state

    @property
    def version(self) -> str:
        """The version that answers."""
        return self.estimator.model_version

    def from_memory(self, question: Any) -> Estimate | None:
        """Answer a question whose job, placement and prediction are all known, else None."""
        if type(question) is not dict or question.keys() != {"job", "placement"}:
            return None
        prepared = self.known.job(question["job"])
        if prepared is None:
            return None
        placement = self.known.placement(question["placement"])
        in_memory, observed = self.observed_jobs.known(prepared)
        return self.estimator.known_answer(prepared, placement, observed) if in_memory else None

    def from_model(self, question: Any) -> Estimate | None:
        """Answer a question whose job and placement are known, observed or not; else None.

        It asks the model, and is for one that answers at once.
        """
        if type(question) is not dict or question.keys() != {"job", "placement"}:
            return None
        prepared = self.known.job(question["job"])
        if prepared is None:
            return None
        return self.estimator.answer(prepared, self.known.placement(question["placement"]))

    def predict_steps(self, questions: Sequence[Any]) -> None:
        """Predict the steps that some questions are about together, as far as jobs are known.

        Raises
        ------
        PerfModelError
            What is wrong with one of them.
        """
        pairs = []
        for question in questions:
            if type(question) is not dict or not question.keys() >= {"job", "placement"}:
                continue
            prepared = self.known.job(question["job"])
            if prepared is not None:
                placement = self.known.placement(question["placement"])
                pairs += [(prepared, accelerator) for accelerator in placement.accelerators]
        for start in range(0, len(pairs), _AT_ONCE):
            self.estimator.predictions(pairs[start : start + _AT_ONCE])

    def predict(self, question: Any) -> Estimate:
        """Answer one question.

        Raises
        ------
        PerfModelError
            What is wrong with it.
        """
        query = parse_query(self.resolved(question))
        placement = self.known.placement(question["placement"])
        if query.job.job_type is not None:
            opaque = self._opaque(query.job, query.observations)
            return self.estimator.answer_type(opaque, [placement])[0]
        prepared = self.prepare(query.job, question["job"])
        observed = self._observed(prepared, query.observations)
        return self.estimator.answer(prepared, placement, observed)

    def explain(self, question: Any, *, most: int) -> Explanation:
        """Explain the answer to one question.

        Parameters
        ----------
        question : object
            As for :meth:`predict`.
        most : int
            Groups of equal operators at most.
        """
        query = parse_query(self.resolved(question))
        prepared = self.prepare(query.job, question["job"])
        placement = self.known.placement(question["placement"])
        observed = self._observed(prepared, query.observations)
        return explain_answer(self.estimator, prepared, placement, observed, most=most)

    def matrix(self, asked: AskedMatrix) -> MatrixEstimate:
        """Answer every pair of some jobs and placements; a bad one fails alone."""
        jobs = [_attempt(self.read_job, job, f"/jobs/{i}") for i, job in enumerate(asked.jobs)]
        seen = {
            row: found
            for row, job in enumerate(jobs)
            if isinstance(job, Job) and (found := self._seen(job, asked.observations.get(row, ())))
        }
        placements = [
            _attempt(parse_placement, p, f"/placements/{i}") for i, p in enumerate(asked.placements)
        ]
        answer = self.estimator.matrix(jobs, placements, seen, self.observed_jobs.companions())
        for cell in answer.errors:
            if cell.placement is not None and isinstance(cell.error, InvalidInputError):
                point_at_text(cell.error, asked.placements[cell.placement])
        return answer

    def curve(self, question: Any) -> Curve:
        """Answer one job over the number of accelerators."""
        asked = read_curve(self.resolved(question))
        seen = self._seen(asked.job, asked.observations)
        return self.estimator.curve(
            asked.job, asked.question, seen, self.observed_jobs.companions()
        )

    def rank(self, question: Any) -> Ranking | PlanRanking:
        """Rank placements of one job, or search the plans of one placement."""
        asked = read_rank(self.resolved(question))
        seen = self._seen(asked.job, asked.observations)
        if isinstance(asked, AskedPlans):
            return self.estimator.search(
                asked.job, asked.placement, seen, self.observed_jobs.companions(),
                global_batch=asked.global_batch, most=asked.most,
            )  # fmt: skip
        ranking = replace(asked.question, prices=self._prices(asked.question.prices))
        return self.estimator.rank(
            asked.job, asked.placements, ranking, seen, self.observed_jobs.companions()
        )

    def prepare(self, job: Job, written: Any) -> PreparedJob:
        """Return a job with its captured step, and recognise it by what was written from now on."""
        prepared = self.estimator.prepare(job)
        if self.known.job(written) is not prepared:
            prepared.work_out()
            self.known.keep_job(written, prepared)
        return prepared

    def at_hand(self) -> Clerk:
        """Return a clerk over the same memory that never waits; what would is refused."""
        view = copy(self)
        view.estimator = self.estimator.at_hand()
        view._state = InMemory(self._state)
        return view

    def knows_observations_of(self, job: Job) -> bool:
        """Return whether what was observed of a job is in memory."""
        return self._state.known_observations_of(job_family(job)) is not None

    def resolved(self, question: Any) -> Any:
        """Return a question with jobs in place of references: its own, and those observed.

        Raises
        ------
        UnknownJobError
            A reference that nobody registered.
        """
        if not isinstance(question, dict) or "job" not in question:
            return question
        job = resolve_job_reference(question["job"], self._state.references)
        if not isinstance(question.get("observations"), list):
            return {**question, "job": job}
        seen = [self._named(one, i) for i, one in enumerate(question["observations"])]
        return {**question, "job": job, "observations": seen}

    def read_job(self, written: Any, *, pointer: str = "/job") -> Job:
        """Return a job that was written out, or referred to.

        Raises
        ------
        InvalidInputError
            It cannot be read, or nobody registered it.
        """
        found = resolve_job_reference(written, self._state.references, pointer=pointer)
        return parse_job(found, pointer=pointer)

    def _named(self, observation: Any, position: int) -> Any:
        if not isinstance(observation, dict) or observation.get("job") is None:
            return observation
        pointer = f"/observations/{position}/job"
        job = resolve_job_reference(observation["job"], self._state.references, pointer=pointer)
        return {**observation, "job": job}

    def _observed(
        self, prepared: PreparedJob, stated: tuple[Observation, ...]
    ) -> ObservedJob | None:
        if not stated:
            return self.observed_jobs.of(prepared)
        seen = self._seen(prepared.job, stated)
        return self.estimator.observed(prepared, seen, self.observed_jobs.companions())

    def _opaque(self, job: Job, stated: tuple[Observation, ...]) -> OpaqueJob:
        if not stated:
            return self.observed_jobs.of_type(job)
        seen = self._seen(job, stated)
        return self.estimator.opaque(job, seen, self.observed_jobs.companions())

    def _seen(self, job: Job, stated: Sequence[Observation] = ()) -> tuple[Observation, ...]:
        """Return what was observed of a job: with the question first, then what is stored."""
        return (*stated, *self.observed_jobs.counting(job))

    def _prices(self, stated: Mapping[str, float]) -> dict[str, float]:
        """Return prices by canonical names: those that are kept, and over them those stated."""
        prices = {name: price.per_hour for name, price in self._state.prices.all().items()}
        for written, price in stated.items():
            try:
                prices[self.estimator.accelerators.get(written).name] = price
            except InvalidInputError as error:
                error.pointer = f"/prices/{written}"
                raise
        return prices


def _attempt(read: Callable[..., T], value: Any, pointer: str) -> T | PerfModelError:
    try:
        return read(value, pointer=pointer)
    except PerfModelError as error:
        return error

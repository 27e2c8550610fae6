"""The one place where a question becomes an answer: of one version of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import InvalidInputError, PerfModelError
from perfmodel.estimator import AskedJob, Estimator, PreparedJob, Table
from perfmodel.estimator.core.resolved_placement import ResolvedPlacement
from perfmodel.estimator.evidence.observed_job import ObservedJob, observed_job
from perfmodel.estimator.explain.explain import Explanation, explain_answer
from perfmodel.estimator.job_types.job_type import ObservedJobType
from perfmodel.estimator.job_types.job_type_answers import answer_of_type
from perfmodel.estimator.kernels.kernel_answers import KernelTable
from perfmodel.estimator.tables.curve import Curve
from perfmodel.estimator.tables.estimates import answer_cell, answer_from_memory
from perfmodel.estimator.tables.filling import fill
from perfmodel.estimator.tables.ranking import Ranking, RankQuestion
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.placement.topology.topology import Placement
from perfmodel.requests import Query, parse_job, parse_query, read_by_job
from service.answering.observed_jobs import ObservedJobs
from service.answering.question_cache import JobCache, QuestionCache, point_at_text
from service.answering.questions import (
    OPTIONS,
    AskedMatrix,
    AskedPlans,
    attempt,
    read_curve,
    read_explain,
    read_rank,
)
from service.state.state import AnyState, InMemoryState, resolve_job_reference

#: Steps that are predicted together: more would keep others from the interpreter for too long.
_AT_ONCE = 64


class Answerer:
    """Answers questions with one version of the model; every answer rests on it alone.

    Whatever it remembers belongs to that version. :meth:`from_memory` never waits; all else may,
    and is for threads. Questions are decoded JSON, and what is wrong with one is raised.

    Parameters
    ----------
    jobs : JobCache
        Recognises jobs; answerers of other versions may share it.
    """

    def __init__(self, estimator: Estimator, state: AnyState, jobs: JobCache) -> None:
        self.estimator = estimator
        self.cache = QuestionCache(estimator.accelerators, jobs)
        self.observed_jobs = ObservedJobs(estimator, state)
        self._state = state

    @property
    def version(self) -> str:
        """The version that answers."""
        return self.estimator.model_version

    def from_memory(self, question: Any) -> Estimate | None:
        """Answer a question whose job, placement and prediction are all known, else None."""
        known = self.cache.known(question)
        if known is None:
            return None
        in_memory, observed = self.observed_jobs.known(known[0])
        if not in_memory:
            return None
        return answer_from_memory(self.estimator.core, *known, observed)

    def from_model(self, question: Any) -> Estimate | None:
        """Answer a question whose job and placement are known, observed or not; else None."""
        known = self.cache.known(question)
        return None if known is None else answer_cell(self.estimator.core, *known)

    def predict(self, question: Any) -> Estimate:
        """Answer one question."""
        core, known = self.estimator.core, self.cache.known(question)
        if known is not None:
            return answer_cell(core, *known, self.observed_jobs.of(known[0]))
        query = self._query(question)
        placement = self.cache.placement(question["placement"])
        if query.job.job_type is not None:
            if query.observations:
                seen = (*query.observations, *self.observed_jobs.counting(query.job))
                strangers = self.observed_jobs.strangers()
                of_type = ObservedJobType.of(core, query.job, seen, strangers)
            else:
                of_type = self.observed_jobs.of_type(query.job)
            return answer_of_type(core, of_type, placement)
        prepared = self.prepare(query.job, question["job"])
        observed = self._observed(prepared, query.observations)
        return answer_cell(core, prepared, placement, observed)

    def _query(self, question: Any) -> Query:
        """Read a question; one that cannot be read is told all that is wrong with it."""
        try:
            return parse_query(self.resolved(question), besides=OPTIONS)
        except InvalidInputError as error:
            said = {one.pointer.split("/")[1:2] == ["placement"] for one in (error, *error.others)}
            if isinstance(question, Mapping) and "placement" in question and True not in said:
                error.others += self._wrong_names(question["placement"])
            raise

    def _wrong_names(self, placement: Any) -> tuple[InvalidInputError, ...]:
        """Say what of a placement that can be read is in no catalogue."""
        try:
            self.cache.placement(placement)
        except InvalidInputError as error:
            return (error,)
        return ()

    def explain(self, question: Any) -> Explanation:
        """Explain the answer to one question, which may say by how many groups of operators."""
        question, most = read_explain(question)
        query = self._query(question)
        prepared = self.prepare(query.job, question["job"])
        placement = self.cache.placement(question["placement"])
        observed = self._observed(prepared, query.observations)
        estimator = self.estimator
        return explain_answer(
            estimator.core, prepared, placement, observed,
            kernels=estimator.kernel_model, most=most,
        )  # fmt: skip

    def kernels(self, question: Any) -> KernelTable:
        """Answer every pair of some kernels and accelerators; a bad one fails alone."""
        return self.estimator.kernels(question)

    def matrix(self, asked: AskedMatrix) -> Table:
        """Answer every pair of some jobs and placements; a bad one fails alone."""
        jobs = [attempt(self.known_or_read, job, f"/jobs/{i}") for i, job in enumerate(asked.jobs)]
        stated: dict[int, tuple[Observation, ...]] = {}
        if asked.observations:
            plain = [job.job if isinstance(job, PreparedJob) else job for job in jobs]
            stated = read_by_job(asked.observations, plain)
        seen = self._seen_by_row(jobs, stated)
        placements = [
            attempt(parse_placement, p, f"/placements/{i}") for i, p in enumerate(asked.placements)
        ]
        strangers = self.observed_jobs.strangers()
        answer = fill(self.estimator.core, jobs, placements, seen, strangers).table()
        for cell in answer.errors:
            if cell.placement is not None and isinstance(cell.error, InvalidInputError):
                point_at_text(cell.error, asked.placements[cell.placement])
        return answer

    def placements(self, written: Sequence[Any]) -> list[ResolvedPlacement | PerfModelError]:
        """Look placements up; a bad one fails alone."""
        found: list[ResolvedPlacement | PerfModelError] = []
        for one in written:
            try:
                found.append(self.cache.placement(one))
            except PerfModelError as error:
                found.append(error)
        return found

    def row(self, job: Job, placements: Sequence[Placement]) -> Table:
        """Answer one job on some placements."""
        asked: AskedJob = job
        if job.job_type is None:
            # Before anything else is worked out; what is wrong with it is said in its cells.
            try:
                asked = self.estimator.core.prepare(job)
            except PerfModelError as error:
                asked = error
        seen = self._seen_by_row([asked], {})
        strangers = self.observed_jobs.strangers()
        return fill(self.estimator.core, [asked], placements, seen, strangers).table()

    def curve(self, question: Any) -> Curve:
        """Answer one job over the number of accelerators."""
        asked = read_curve(self.resolved(question))
        seen = (*asked.observations, *self.observed_jobs.counting(asked.job))
        return self.estimator.curve(asked.job, asked.question, seen, self.observed_jobs.strangers())

    def rank(self, question: Any) -> Ranking | PlanRanking:
        """Rank placements of one job, or search the plans of one placement."""
        asked = read_rank(self.resolved(question))
        seen = (*asked.observations, *self.observed_jobs.counting(asked.job))
        if isinstance(asked, AskedPlans):
            return self.estimator.search(
                asked.job, asked.placement, seen, self.observed_jobs.strangers(),
                global_batch=asked.global_batch, most=asked.most,
            )  # fmt: skip
        return self.estimator.rank(
            asked.job, asked.placements, self._priced(asked.question), seen,
            self.observed_jobs.strangers(),
        )  # fmt: skip

    def prepare(self, job: Job, written: Any) -> PreparedJob:
        """Return a job with its captured step, and recognise it by what was written from now on."""
        prepared = self.estimator.core.prepare(job)
        if self.cache.job(written) is not prepared:
            prepared.work_out()
            self.cache.keep_job(written, prepared)
        return prepared

    def predict_steps(self, pairs: Iterable[tuple[PreparedJob, AcceleratorSpec]]) -> None:
        """Make predictions of jobs on accelerators, for answers to find them in memory."""
        self.estimator.core.predictions(list(pairs))

    def predict_steps_of(self, questions: Sequence[Any]) -> None:
        """Predict the steps that some questions are about together, as far as jobs are known."""
        pairs = []
        for question in questions:
            if type(question) is not dict or not question.keys() >= {"job", "placement"}:
                continue
            prepared = self.cache.job(question["job"])
            if prepared is not None:
                placement = self.cache.placement(question["placement"])
                pairs += [(prepared, accelerator) for accelerator in placement.accelerators]
        for start in range(0, len(pairs), _AT_ONCE):
            self.predict_steps(pairs[start : start + _AT_ONCE])

    def non_blocking(self) -> Answerer:
        """Return an answerer over the same memory that never waits; what would is refused."""
        view = copy(self)
        view.estimator = self.estimator.non_blocking()
        view._state = InMemoryState(self._state)
        return view

    def read_job(self, written: Any, *, pointer: str = "/job") -> Job:
        """Return a job that was written out, or referred to; a known one is not read again."""
        found = self.known_or_read(written, pointer=pointer)
        return found.job if isinstance(found, PreparedJob) else found

    def known_or_read(self, written: Any, *, pointer: str) -> Job | PreparedJob:
        """Return the same, with its captured step where it was asked about before."""
        known = self.cache.job(written)
        if known is not None:
            return known
        return parse_job(self.job_written(written, pointer=pointer), pointer=pointer)

    def job_written(self, value: Any, *, pointer: str = "/job") -> Any:
        """Return a job as it was written out, where it was or where it was registered."""
        return resolve_job_reference(value, self._state.references, pointer=pointer)

    def resolved(self, question: Any) -> Any:
        """Return a question with jobs in place of references: its own, and those observed."""
        if not isinstance(question, dict) or "job" not in question:
            return question
        question = {**question, "job": self.job_written(question["job"])}
        if isinstance(question.get("observations"), list):
            seen = [self._named(one, i) for i, one in enumerate(question["observations"])]
            question["observations"] = seen
        return question

    def _named(self, observation: Any, position: int) -> Any:
        if not isinstance(observation, dict) or observation.get("job") is None:
            return observation
        pointer = f"/observations/{position}/job"
        return {**observation, "job": self.job_written(observation["job"], pointer=pointer)}

    def _seen_by_row(
        self, jobs: Sequence[AskedJob], stated: Mapping[int, Sequence[Observation]]
    ) -> dict[int, tuple[Observation, ...]]:
        """Return what was observed of each row; batches of one job share the stored ones."""
        stored: dict[str, tuple[Observation, ...]] = {}
        found = {}
        for row, job in enumerate(jobs):
            if isinstance(job, PerfModelError):
                continue
            if job.family not in stored:
                stored[job.family] = self.observed_jobs.counting(job)
            found[row] = (*stated.get(row, ()), *stored[job.family])
        return {row: seen for row, seen in found.items() if seen}

    def _observed(
        self, prepared: PreparedJob, stated: tuple[Observation, ...]
    ) -> ObservedJob | None:
        if not stated:
            return self.observed_jobs.of(prepared)
        seen = (*stated, *self.observed_jobs.counting(prepared.job))
        strangers = self.observed_jobs.strangers()
        return observed_job(self.estimator.core, prepared, seen, strangers)

    def _priced(self, question: RankQuestion) -> RankQuestion:
        """Return a question with the prices that are kept, and over them those that it states."""
        stated: dict[str, float] = {}
        for written, price in question.prices.items():
            try:
                stated[self.estimator.accelerators.get(written).name] = price
            except InvalidInputError as error:
                error.pointer = f"/prices/{written}"
                raise
        kept = {name: p for name, p in self._state.prices.all().items() if name not in stated}
        return replace(
            question,
            prices={name: price.per_hour for name, price in kept.items()} | stated,
            currencies={name: price.currency for name, price in kept.items()},
        )

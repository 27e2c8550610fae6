"""Where questions are read and answered without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import orjson

from perfmodel.errors import InvalidInputError, PerfModelError, UnknownFieldError
from perfmodel.estimator import Estimator, MatrixEstimate, PreparedJob
from perfmodel.estimator.curve import Curve
from perfmodel.estimator.lru import LruCache
from perfmodel.estimator.ranking import Ranking
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.plans.plan_search import PlanRanking
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job, parse_observations, parse_query
from service.errors import MalformedBodyError, OverloadedError
from service.job_references import resolve_job_reference
from service.metrics.registry import Metrics
from service.observed_jobs import ObservedJobs
from service.questions import AskedPlans, read_curve, read_rank
from service.settings import Settings
from service.state import State

T = TypeVar("T")

_MATRIX = ("jobs", "placements", "observations")


class Desk:
    """Reads bodies, answers at once from memory, and hands the rest to threads.

    A job or a placement that was read before is recognised by its bytes, whatever the order of
    its fields, and not read again.

    Parameters
    ----------
    estimator : Estimator
    settings : Settings
    metrics : Metrics or None
        Where answers are counted; None: where nobody looks.
    """

    def __init__(
        self, estimator: Estimator, settings: Settings, metrics: Metrics | None = None
    ) -> None:
        self.estimator = estimator
        self.metrics = metrics or Metrics()
        self.state = State.beside(estimator)
        self._observed_jobs = ObservedJobs(estimator, self.state)
        self._settings = settings
        self._jobs: LruCache[bytes, PreparedJob] = LruCache(4_096)
        self._placements: LruCache[bytes, ResolvedPlacement] = LruCache(16_384)
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="answer")
        self._waiting = 0
        self._depth = self.metrics.queue("answer")

    async def predict(self, body: bytes) -> Estimate:
        """Answer one question.

        Parameters
        ----------
        body : bytes
            JSON with ``job`` and ``placement``.

        Raises
        ------
        PerfModelError
            What is wrong with it.
        """
        question = read_json(body)
        answer = self._from_memory(question)
        if answer is None:
            answer = await self.in_thread(self._predict, question)
        self.metrics.answer("/v1/predict", answer.basis)
        return answer

    async def matrix(self, body: bytes) -> MatrixEstimate:
        """Answer every pair of ``jobs`` and ``placements``."""
        answer = await self.in_thread(self._matrix, read_json(body))
        self.metrics.table("/v1/matrix", answer.basis)
        return answer

    async def curve(self, body: bytes) -> Curve:
        """Answer one job over the number of accelerators."""
        answer = await self.in_thread(self._curve, read_json(body))
        self.metrics.answers("/v1/curve", answer.basis)
        return answer

    async def rank(self, body: bytes) -> Ranking | PlanRanking:
        """Rank placements of one job, or search the plans of one placement."""
        return await self.in_thread(self._rank, read_json(body))

    async def in_thread(self, action: Callable[..., T], *args: Any) -> T:
        """Run something that takes long in a thread.

        Raises
        ------
        OverloadedError
            As many as may wait already do.
        """
        if self._waiting >= self._settings.max_waiting:
            raise OverloadedError(
                f"{self._waiting} questions already wait for a capture or the model. Try again "
                "later."
            )
        self._waiting += 1
        self._depth.inc()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, action, *args)
        finally:
            self._waiting -= 1
            self._depth.dec()

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.state.close()

    def resolved(self, question: Any) -> Any:
        """Return a question with its job in place of a reference to it.

        Raises
        ------
        UnknownJobError
            A reference that nobody registered.
        """
        if not isinstance(question, dict) or "job" not in question:
            return question
        return {**question, "job": resolve_job_reference(question["job"], self.state.references)}

    def _from_memory(self, question: Any) -> Estimate | None:
        """Answer a question whose job, placement and prediction are all known, else None."""
        if type(question) is not dict or question.keys() != {"job", "placement"}:
            return None
        prepared = self._jobs.get(_key(question["job"]))
        if prepared is None:
            return None
        key = _key(question["placement"])
        placement = self._placements.get(key)
        if placement is None:
            placement = self._resolve(question["placement"])
            self._placements.put(key, placement)
        in_memory, observed = self._observed_jobs.known(prepared)
        return self.estimator.known_answer(prepared, placement, observed) if in_memory else None

    def _predict(self, question: Any) -> Estimate:
        query = parse_query(self.resolved(question))
        resolved = self._resolve(question["placement"])
        if query.job.job_type is not None:
            seen = self._seen(query.job, query.observations)
            return self.estimator.estimate(query.job, query.placement, seen)
        prepared = self.estimator.prepare(query.job)
        self._jobs.put(_key(question["job"]), prepared)
        if query.observations:
            seen = self._seen(query.job, query.observations)
            observed = self.estimator.observed(prepared, seen)
        else:
            observed = self._observed_jobs.of(prepared)
        return self.estimator.answer(prepared, resolved, observed)

    def _seen(self, job: Job, stated: tuple[Observation, ...] = ()) -> tuple[Observation, ...]:
        """Return what was observed of a job: with the question first, then what is stored."""
        return (*stated, *self.state.observations_of(job))

    def _curve(self, question: Any) -> Curve:
        asked = read_curve(self.resolved(question))
        seen = self._seen(asked.job, asked.observations)
        return self.estimator.curve(asked.job, asked.question, seen)

    def _rank(self, question: Any) -> Ranking | PlanRanking:
        asked = read_rank(self.resolved(question))
        if isinstance(asked, AskedPlans):
            return self.estimator.search(
                asked.job, asked.placement, global_batch=asked.global_batch, most=asked.most
            )
        seen = self._seen(asked.job, asked.observations)
        ranking = replace(asked.question, prices=self._prices(asked.question.prices))
        return self.estimator.rank(asked.job, asked.placements, ranking, seen)

    def _prices(self, stated: Mapping[str, float]) -> dict[str, float]:
        """Return prices by canonical names: those that are kept, and over them those stated."""
        prices = {name: price.per_hour for name, price in self.state.prices.all().items()}
        for written, price in stated.items():
            try:
                prices[self.estimator.accelerators.get(written).name] = price
            except InvalidInputError as error:
                error.pointer = f"/prices/{written}"
                raise
        return prices

    def _read_job(self, written: Any, *, pointer: str) -> Job:
        found = resolve_job_reference(written, self.state.references, pointer=pointer)
        return parse_job(found, pointer=pointer)

    def _resolve(self, written: Any) -> ResolvedPlacement:
        try:
            return self.estimator.resolve(parse_placement(written))
        except InvalidInputError as error:
            _point_at_text(error, written)
            raise

    def _matrix(self, question: Any) -> MatrixEstimate:
        jobs, placements = _lists(question)
        observations = _observations(question, len(jobs))
        cells = len(jobs) * len(placements)
        if cells > self._settings.max_cells:
            raise InvalidInputError(
                f"{len(jobs)} jobs x {len(placements)} placements are {cells} cells; at most "
                f"{self._settings.max_cells} are answered at a time. Send fewer."
            )
        read = [_attempt(self._read_job, job, f"/jobs/{i}") for i, job in enumerate(jobs)]
        seen = {
            row: found
            for row, job in enumerate(read)
            if isinstance(job, Job) and (found := self._seen(job, observations.get(row, ())))
        }
        answer = self.estimator.matrix(
            read,
            [_attempt(parse_placement, p, f"/placements/{i}") for i, p in enumerate(placements)],
            seen,
        )
        for cell in answer.errors:
            if cell.placement is not None and isinstance(cell.error, InvalidInputError):
                _point_at_text(cell.error, placements[cell.placement])
        return answer


def read_json(body: bytes) -> Any:
    """Decode a body.

    Raises
    ------
    MalformedBodyError
        Not JSON; NaN and infinities are not.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedBodyError(
            f"The body is not valid JSON: {error}. NaN and infinities are not JSON numbers."
        ) from error


def _point_at_text(error: InvalidInputError, written: Any) -> None:
    """Let an error in a placement's short form point at the text: it has no parts in JSON."""
    if isinstance(written, str) and error.pointer.startswith("/placement/"):
        error.pointer = "/placement"


def _key(part: Any) -> bytes:
    return orjson.dumps(part, option=orjson.OPT_SORT_KEYS)


def _lists(question: Any) -> tuple[list[Any], list[Any]]:
    if not isinstance(question, dict):
        raise InvalidInputError("A matrix request must be an object.")
    for name in question:
        if name not in _MATRIX:
            raise UnknownFieldError(name, known=_MATRIX, pointer=f"/{name}")
    lists = [question.get(name) for name in ("jobs", "placements")]
    for name, value in zip(("jobs", "placements"), lists, strict=True):
        if not isinstance(value, list) or not value:
            raise InvalidInputError(f"{name} must be a list that is not empty.", pointer=f"/{name}")
    return lists[0] or [], lists[1] or []


def _observations(question: Any, jobs: int) -> dict[int, tuple[Observation, ...]]:
    """Read the observations of a matrix: those of :func:`parse_observations`, each with its job."""
    found: dict[int, tuple[Observation, ...]] = {}
    written = question.get("observations")
    if written is None:
        return found
    if not isinstance(written, list):
        raise InvalidInputError("observations must be a list.", pointer="/observations")
    for position, item in enumerate(written):
        at = f"/observations/{position}"
        job = item.get("job") if isinstance(item, dict) else None
        if not isinstance(job, int) or isinstance(job, bool) or not 0 <= job < jobs:
            raise InvalidInputError(
                f"job is the position of the observed job in jobs, from 0 to {jobs - 1}.",
                pointer=f"{at}/job",
            )
        plain = {name: value for name, value in item.items() if name != "job"}
        found[job] = (*found.get(job, ()), *parse_observations([plain], pointer=at))
    return found


def _attempt(read: Callable[..., T], value: Any, pointer: str) -> T | PerfModelError:
    try:
        return read(value, pointer=pointer)
    except PerfModelError as error:
        return error

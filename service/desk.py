"""Where questions are read and answered without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import orjson

from perfmodel.errors import InvalidInputError, PerfModelError, UnknownFieldError
from perfmodel.estimator import Estimator, MatrixEstimate, PreparedJob
from perfmodel.estimator.lru import LruCache
from perfmodel.estimator.resolve import ResolvedPlacement
from perfmodel.placement.estimate import Estimate
from perfmodel.placement.parse import parse_placement
from perfmodel.requests import parse_job, parse_request
from service.errors import MalformedBodyError, OverloadedError
from service.settings import Settings

T = TypeVar("T")


class Desk:
    """Reads bodies, answers at once from memory, and hands the rest to threads.

    A job or a placement that was read before is recognised by its bytes, whatever the order of
    its fields, and not read again.

    Parameters
    ----------
    estimator : Estimator
    settings : Settings
    """

    def __init__(self, estimator: Estimator, settings: Settings) -> None:
        self.estimator = estimator
        self._settings = settings
        self._jobs: LruCache[bytes, PreparedJob] = LruCache(4_096)
        self._placements: LruCache[bytes, ResolvedPlacement] = LruCache(16_384)
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="answer")
        self._waiting = 0

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
        known = self._from_memory(question)
        if known is not None:
            return known
        return await self.in_thread(self._predict, question)

    async def matrix(self, body: bytes) -> MatrixEstimate:
        """Answer every pair of ``jobs`` and ``placements``."""
        return await self.in_thread(self._matrix, read_json(body))

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
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, action, *args)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

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
        return self.estimator.known_answer(prepared, placement)

    def _predict(self, question: Any) -> Estimate:
        job, _ = parse_request(question)
        resolved = self._resolve(question["placement"])
        prepared = self.estimator.prepare(job)
        self._jobs.put(_key(question["job"]), prepared)
        return self.estimator.answer(prepared, resolved)

    def _resolve(self, written: Any) -> ResolvedPlacement:
        try:
            return self.estimator.resolve(parse_placement(written))
        except InvalidInputError as error:
            _point_at_text(error, written)
            raise

    def _matrix(self, question: Any) -> MatrixEstimate:
        jobs, placements = _lists(question)
        cells = len(jobs) * len(placements)
        if cells > self._settings.max_cells:
            raise InvalidInputError(
                f"{len(jobs)} jobs x {len(placements)} placements are {cells} cells; at most "
                f"{self._settings.max_cells} are answered at a time. Send fewer."
            )
        answer = self.estimator.matrix(
            [_attempt(parse_job, job, f"/jobs/{i}") for i, job in enumerate(jobs)],
            [_attempt(parse_placement, p, f"/placements/{i}") for i, p in enumerate(placements)],
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
        if name not in ("jobs", "placements"):
            raise UnknownFieldError(name, known=("jobs", "placements"), pointer=f"/{name}")
    lists = [question.get(name) for name in ("jobs", "placements")]
    for name, value in zip(("jobs", "placements"), lists, strict=True):
        if not isinstance(value, list) or not value:
            raise InvalidInputError(f"{name} must be a list that is not empty.", pointer=f"/{name}")
    return lists[0] or [], lists[1] or []


def _attempt(read: Callable[..., T], value: Any, pointer: str) -> T | PerfModelError:
    try:
        return read(value, pointer=pointer)
    except PerfModelError as error:
        return error

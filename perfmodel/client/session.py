"""The protocol without input and output: what is sent, when again, and what comes of it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from perfmodel.client.errors import (
    NoAnswerError,
    RefusedError,
    UnavailableError,
    UnreachableError,
)
from perfmodel.client.kept import Kept, KeptAnswers
from perfmodel.client.messages import Call, Fallback, Flow, Reply, Send, Task, Wait
from perfmodel.client.reading import read_reply
from perfmodel.client.retrying import Retrying
from perfmodel.client.writing import Bases, Draft, draft
from perfmodel.errors import InvalidInputError

T = TypeVar("T")

#: Of replies as they came; what is read of them takes some times as much memory.
_KEPT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Manners:
    """How a client asks.

    Parameters
    ----------
    timeout_s : float
        For a whole call: every attempt, and the waiting between them.
    fallback : callable or None
        Answers where the service does not.
    rest_s : float
        After a call without an answer, how long none is made: callers then wait for nothing.
    compress_above_bytes : int or None
        Longer bodies are sent compressed; None: none are.
    """

    api_key: str | None = None
    timeout_s: float = 10.0
    retrying: Retrying = Retrying()
    fallback: Fallback | None = None
    rest_s: float = 0.0
    compress_above_bytes: int | None = 64 * 1024


class Session:
    """Turns calls into flows; see :data:`~perfmodel.client.messages.Flow`.

    Parameters
    ----------
    url : str or sequence of str
        Of the service; of several hosts that share a database, the next is asked where one fails.
    clock : callable
        Returns seconds that only grow.

    Raises
    ------
    InvalidInputError
        A URL or a key that is none.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        manners: Manners,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bases = Bases([url] if isinstance(url, str) else url)
        key = manners.api_key
        if key is not None and not (key.isascii() and key.isprintable() and key.strip() == key):
            raise InvalidInputError("api_key holds what no header can; is a line end at its end?")
        self._manners = manners
        self._clock = clock
        self._kept = KeptAnswers(_KEPT_BYTES)
        self._rests_until = 0.0

    def answer(self, call: Call[T]) -> Flow[T]:
        """Make a call: attempts, waits, and in the end its answer.

        Raises
        ------
        NoAnswerError
            None came that can be used.
        """
        try:
            return (yield from self._attempts(call))
        except RefusedError:
            raise
        except NoAnswerError:
            fallback = self._manners.fallback
            content = None if fallback is None else fallback(call)
            if content is None:
                raise
            return call.read(content)

    def task(self, task: Task[T]) -> Flow[T]:
        """Make the calls of a task."""
        answer: Any = None
        while True:
            try:
                step = task.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = (yield step) if isinstance(step, Wait) else (yield from self.answer(step))

    def _attempts(self, call: Call[T]) -> Flow[T]:
        until = self._clock() + self._manners.timeout_s
        self._refuse_to_disturb()
        written = draft(call, request_id=uuid.uuid4().hex, api_key=self._manners.api_key)
        question = written.question if call.tagged else b""
        kept = self._kept.get(question)
        ready = written.packed(self._manners.compress_above_bytes)
        ready = ready if kept is None else ready.unless(kept.tag)
        sent = 0
        while True:
            base = self._bases.now
            sent += 1
            try:
                left_s = max(0.0, until - self._clock())
                reply = yield Send(request=ready.to(base), timeout_s=left_s)
                assert reply is not None
                return self._read(call, reply, ready, question, kept)
            except NoAnswerError as error:
                wait_s = self._after_failure(error, ready, base, sent, until)
            yield Wait(seconds=wait_s)

    def _after_failure(
        self, error: NoAnswerError, sent: Draft, base: str, times: int, until: float
    ) -> float:
        """Return how long to wait before the next attempt, or raise where there is none."""
        error.request_id = error.request_id or sent.headers["X-Request-ID"]
        if isinstance(error, UnreachableError | UnavailableError):
            self._bases.leave(base)
        wait_s = self._manners.retrying.wait_s(times, error)
        if wait_s is None or self._clock() + wait_s >= until:
            if not isinstance(error, RefusedError):
                self._rests_until = self._clock() + self._manners.rest_s
            raise error
        return wait_s

    def _read(
        self, call: Call[T], reply: Reply, sent: Draft, question: bytes, kept: Kept | None
    ) -> T:
        if reply.status == 304 and kept is not None:
            unchanged: T = kept.answer
            return unchanged
        answer = read_reply(call, reply, request_id=sent.headers["X-Request-ID"])
        tag = reply.headers.get("etag")
        if question and tag is not None:
            size_bytes = len(reply.content)
            self._kept.put(question, Kept(tag=tag, answer=answer, size_bytes=size_bytes))
        return answer

    def _refuse_to_disturb(self) -> None:
        left_s = self._rests_until - self._clock()
        if left_s > 0:
            raise UnreachableError(
                f"The service gave no answer a moment ago; it is asked again in {left_s:.1f} s."
            )

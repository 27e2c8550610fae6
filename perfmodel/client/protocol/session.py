"""The protocol without input and output: what is sent, when again, and what comes of it."""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from perfmodel.client.errors import (
    NoAnswerError,
    RefusedError,
    UnavailableError,
    UnreachableError,
)
from perfmodel.client.protocol.encoding import Bases, Draft, draft, read_reply
from perfmodel.client.protocol.messages import Call, Fallback, Flow, Reply, Send, Task, Wait
from perfmodel.client.protocol.retrying import Retrying
from perfmodel.errors import InvalidInputError

T = TypeVar("T")

#: Of replies as they came; what is read of them takes some times as much memory.
_KEPT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """An answer, its ``ETag``, and the size of the reply it was read from."""

    tag: str
    answer: Any
    size_bytes: int


class KeptAnswers:
    """The answers that were used last, up to a size of all replies; safe among threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[bytes, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> Kept | None:
        """Return the answer to a question, None where there is none."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: bytes, kept: Kept) -> None:
        """Keep an answer; those that were not used for the longest time make room."""
        if kept.size_bytes > self._most_bytes:
            return
        with self._lock:
            old = self._kept.pop(key, None)
            self._bytes += kept.size_bytes - (old.size_bytes if old else 0)
            self._kept[key] = kept
            while self._bytes > self._most_bytes:
                _, gone = self._kept.popitem(last=False)
                self._bytes -= gone.size_bytes


@dataclass(frozen=True, kw_only=True)
class Manners:
    """How a client asks; see :class:`~perfmodel.client.Client`."""

    api_key: str | None
    timeout_s: float
    retrying: Retrying
    fallback: Fallback | None
    rest_s: float
    compress_above_bytes: int | None


class Session:
    """Turns calls into flows; see :data:`~perfmodel.client.protocol.messages.Flow`.

    ``clock`` returns seconds that only grow.

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

    def flow(self, asked: Call[T] | Task[T]) -> Flow[T]:
        """Make a call, or those of a task."""
        return self.answer(asked) if isinstance(asked, Call) else self._task(asked)

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

    def _task(self, task: Task[T]) -> Flow[T]:
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

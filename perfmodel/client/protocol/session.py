"""The protocol without input and output: what is sent, when again, and what comes of it."""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from perfmodel.client.errors import NoAnswerError, RefusedError, UnavailableError, UnreachableError
from perfmodel.client.protocol.encoding import (
    Bases,
    draft,
    key_of,
    packed,
    question_of,
    read_reply,
)
from perfmodel.client.protocol.messages import (
    Call,
    Fallback,
    Flow,
    Reply,
    Request,
    Send,
    Task,
    Wait,
)
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


class Session:
    """Turns calls into flows; see :data:`~perfmodel.client.protocol.messages.Flow`.

    The parameters are those of :class:`~perfmodel.client.Client`.

    Raises
    ------
    InvalidInputError
        A URL or a key that is none.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        api_key: str | None,
        timeout_s: float,
        retries: int,
        fallback: Fallback | None,
        rest_s: float,
        compress_above_bytes: int | None,
    ) -> None:
        urls = [url] if isinstance(url, str) else url
        self._bases = Bases(urls)
        if api_key is None:
            api_key = next(filter(None, map(key_of, urls)), None)
        if api_key is not None and (
            not (api_key.isascii() and api_key.isprintable()) or api_key.strip() != api_key
        ):
            raise InvalidInputError("api_key holds what no header can; is a line end at its end?")
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._retrying = Retrying(most=retries)
        self._fallback = fallback
        self._rest_s = rest_s
        self._compress_above_bytes = compress_above_bytes
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
            content = None if self._fallback is None else self._fallback(call)
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
        until = time.monotonic() + self._timeout_s
        self._refuse_to_disturb()
        written = draft(call, request_id=uuid.uuid4().hex, api_key=self._api_key)
        question = question_of(written) if call.tagged else b""
        ready = packed(written, self._compress_above_bytes)
        kept = self._kept.get(question)
        if kept is not None:
            ready = replace(ready, headers={**ready.headers, "If-None-Match": kept.tag})
        sent = 0
        while True:
            base = self._bases.now
            sent += 1
            try:
                left_s = max(0.0, until - time.monotonic())
                reply = yield Send(request=replace(ready, url=base + ready.url), timeout_s=left_s)
                assert reply is not None
                return self._read(call, reply, ready, question, kept)
            except NoAnswerError as error:
                wait_s = self._after_failure(error, ready, base, sent, until)
            yield Wait(seconds=wait_s)

    def _after_failure(
        self, error: NoAnswerError, sent: Request, base: str, times: int, until: float
    ) -> float:
        """Return how long to wait before the next attempt, or raise where there is none."""
        error.request_id = error.request_id or sent.headers["X-Request-ID"]
        if isinstance(error, UnreachableError | UnavailableError):
            self._bases.leave(base)
        wait_s = self._retrying.wait_s(times, error)
        if wait_s is None or time.monotonic() + wait_s >= until:
            if not isinstance(error, RefusedError):
                self._rests_until = time.monotonic() + self._rest_s
            raise error
        return wait_s

    def _read(
        self, call: Call[T], reply: Reply, sent: Request, question: bytes, kept: Kept | None
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
        left_s = self._rests_until - time.monotonic()
        if left_s > 0:
            raise UnreachableError(
                f"The service gave no answer a moment ago; it is asked again in {left_s:.1f} s."
            )

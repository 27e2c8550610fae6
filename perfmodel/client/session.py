"""The protocol without input and output: what is sent, when again, and what its reply means."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import time
import uuid
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode, urlsplit

from perfmodel import __version__
from perfmodel.client.decode import MisfitError, reader
from perfmodel.client.errors import (
    NoAnswerError,
    Problem,
    RefusedError,
    UnavailableError,
    UnreachableError,
    UnreadableAnswerError,
    problem_error,
)
from perfmodel.client.kept import Kept, KeptAnswers
from perfmodel.client.messages import (
    JSON_MEDIA_TYPE,
    Call,
    Fallback,
    Flow,
    Reply,
    Request,
    Send,
    Task,
    Wait,
)
from perfmodel.client.retrying import Retrying, retry_after_s
from perfmodel.errors import InvalidInputError

T = TypeVar("T")

#: Longest answer that is read; a matrix of 1,000,000 cells takes less.
MAX_BYTES = 128 * 1024 * 1024

_KEPT_BYTES = 32 * 1024 * 1024
_WORDS_SHOWN = 200


@dataclass(frozen=True, kw_only=True)
class Manners:
    """How a client asks.

    Parameters
    ----------
    api_key : str or None
    timeout_s : float
        For a whole call: every attempt, and the waiting between them.
    retrying : Retrying
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
    manners : Manners
    clock : callable
        Returns seconds that only grow.

    Raises
    ------
    InvalidInputError
        A URL that is none.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        manners: Manners,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bases = [_base(one) for one in ([url] if isinstance(url, str) else url)]
        if not self._bases:
            raise InvalidInputError("A client needs the URL of a service; got none.")
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
        request_id = uuid.uuid4().hex
        kept = self._kept.get(_question(call)) if call.tagged else None
        headers, body = self._written(call, request_id, kept)
        sent = 0
        while True:
            url = self._bases[0] + call.path + _query(call)
            request = Request(method=call.method, url=url, headers=headers, body=body)
            sent += 1
            try:
                reply = yield Send(request=request, timeout_s=max(0.0, until - self._clock()))
                return self._read(call, reply, request_id, kept)
            except NoAnswerError as error:
                error.request_id = error.request_id or request_id
                wait_s = self._manners.retrying.wait_s(sent, error)
                failed = isinstance(error, UnreachableError | UnavailableError)
                if failed and len(self._bases) > 1:
                    self._bases.append(self._bases.pop(0))
                if wait_s is None or self._clock() + wait_s >= until:
                    self._rest_after(error)
                    raise
            yield Wait(seconds=wait_s)

    def _refuse_to_disturb(self) -> None:
        left_s = self._rests_until - self._clock()
        if left_s > 0:
            raise UnreachableError(
                f"The service gave no answer a moment ago; it is asked again in {left_s:.1f} s."
            )

    def _rest_after(self, error: NoAnswerError) -> None:
        if not isinstance(error, RefusedError):
            self._rests_until = self._clock() + self._manners.rest_s

    def _written(
        self, call: Call[Any], request_id: str, kept: Kept | None
    ) -> tuple[dict[str, str], bytes | None]:
        headers = {
            "Accept": JSON_MEDIA_TYPE,
            "Accept-Encoding": "gzip" if call.large else "identity",
            "User-Agent": f"perfmodel/{__version__}",
            "X-Request-ID": request_id,
            **call.headers,
        }
        if self._manners.api_key is not None:
            headers["Authorization"] = f"Bearer {self._manners.api_key}"
        if kept is not None:
            headers["If-None-Match"] = kept.tag
        body = _encoded(call)
        if body is not None:
            headers["Content-Type"] = call.media_type
            limit = self._manners.compress_above_bytes
            if limit is not None and len(body) > limit:
                headers["Content-Encoding"] = "gzip"
                body = gzip.compress(body, 4, mtime=0)
        return headers, body

    def _read(self, call: Call[T], reply: Reply | None, request_id: str, kept: Kept | None) -> T:
        assert reply is not None
        if reply.status == 304 and kept is not None:
            answer: T = kept.answer
            return answer
        if reply.status in call.meaning:
            meant: T = call.meaning[reply.status]
            return meant
        content = _plain(reply)
        if not 200 <= reply.status < 300:
            _raise_problem(reply, content, request_id)
        try:
            answer = call.read(_json(content))
        except ValueError as error:
            raise UnreadableAnswerError(
                f"The answer of {call.path} cannot be read{error}: {content[:_WORDS_SHOWN]!r}"
                if isinstance(error, MisfitError)
                else f"The answer of {call.path} is no JSON: {content[:_WORDS_SHOWN]!r}"
            ) from None
        if call.tagged and "etag" in reply.headers:
            tagged = Kept(tag=reply.headers["etag"], answer=answer, size_bytes=len(content))
            self._kept.put(_question(call), tagged)
        return answer


def _raise_problem(reply: Reply, content: bytes, request_id: str) -> NoReturn:
    problem = Problem(status=reply.status, detail=f"The service answered {reply.status}.")
    # A proxy on the way answers in its own words; then the status says enough.
    with contextlib.suppress(ValueError):
        problem = reader(Problem)({**_json(content), "status": reply.status})
    raise problem_error(
        problem,
        request_id=reply.headers.get("x-request-id", request_id),
        retry_after_s=retry_after_s(reply.headers.get("retry-after")),
    )


def _base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(f"A service has a URL such as http://127.0.0.1:8000; got {url!r}.")
    if parts.username or parts.query or parts.fragment:
        raise InvalidInputError(
            f"The URL of a service has scheme, host, port and path; the key goes into api_key. "
            f"Got {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()!r}."
        )
    return url.rstrip("/")


def _query(call: Call[Any]) -> str:
    stated = {name: value for name, value in call.query.items() if value is not None}
    return f"?{urlencode(stated)}" if stated else ""


def _encoded(call: Call[Any]) -> bytes | None:
    if call.body is None or isinstance(call.body, bytes):
        return call.body
    try:
        return json.dumps(call.body, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The body for {call.path} cannot be written as JSON: {error}."
        ) from error


def _question(call: Call[Any]) -> bytes:
    written = f"{call.method} {call.path}{_query(call)}\n".encode() + (_encoded(call) or b"")
    return hashlib.blake2b(written, digest_size=16).digest()


def _plain(reply: Reply) -> bytes:
    """Return the content of a reply, without its compression."""
    if reply.headers.get("content-encoding", "identity") != "gzip":
        return reply.content
    inflate = zlib.decompressobj(wbits=31)
    try:
        plain = inflate.decompress(reply.content, MAX_BYTES)
    except zlib.error as error:
        raise UnreadableAnswerError(f"The answer is no gzip: {error}.") from None
    if inflate.unconsumed_tail or not inflate.eof:
        raise UnreadableAnswerError(f"The answer is cut off or longer than {MAX_BYTES} bytes.")
    return plain


def _json(content: bytes) -> Any:
    return json.loads(content, parse_constant=_no_number)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")

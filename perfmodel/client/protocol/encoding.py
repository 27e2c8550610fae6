"""Calls as requests, replies as answers or as the errors that they are."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

from perfmodel import __version__
from perfmodel.client.errors import Problem, UnreadableAnswerError, problem_error
from perfmodel.client.protocol.decode import MisfitError, reader
from perfmodel.client.protocol.messages import JSON_MEDIA_TYPE, Call, Reply, Request
from perfmodel.client.protocol.retrying import retry_after_s
from perfmodel.errors import InvalidInputError

T = TypeVar("T")

#: Longest answer that is read; a matrix of 1,000,000 cells takes less.
MAX_BYTES = 128 * 1024 * 1024

_BYTES_SHOWN = 200
_GZIP_LEVEL = 4


def draft(call: Call[Any], *, request_id: str, api_key: str | None) -> Request:
    """Write a call as a request whose URL has no host yet.

    Raises
    ------
    InvalidInputError
        The body is no JSON.
    """
    headers = {
        "Accept": JSON_MEDIA_TYPE,
        "Accept-Encoding": "gzip" if call.large else "identity",
        "User-Agent": f"perfmodel/{__version__}",
        "X-Request-ID": request_id,
        **call.headers,
    }
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    body = _encoded(call)
    if body is not None:
        headers["Content-Type"] = call.media_type
    stated = {name: value for name, value in call.query.items() if value is not None}
    query = f"?{urlencode(stated)}" if stated else ""
    return Request(method=call.method, url=call.path + query, headers=headers, body=body)


def question_of(draft: Request) -> bytes:
    """Return what is asked, in 16 bytes; the same for the same question."""
    asked = f"{draft.method} {draft.url}\n".encode() + (draft.body or b"")
    return hashlib.blake2b(asked, digest_size=16).digest()


def packed(draft: Request, above_bytes: int | None) -> Request:
    """Return a request with its body compressed, if that is longer than a limit."""
    if draft.body is None or above_bytes is None or len(draft.body) <= above_bytes:
        return draft
    headers = {**draft.headers, "Content-Encoding": "gzip"}
    return replace(draft, headers=headers, body=gzip.compress(draft.body, _GZIP_LEVEL, mtime=0))


def base_of(url: str) -> str:
    """Return the URL of a service without a key that it has as its password, or a slash at its end.

    Raises
    ------
    InvalidInputError
        It is none, or says more than where the service is.

    Examples
    --------
    >>> base_of("https://any:pmk_key@example.org/perfmodel/")
    'https://example.org/perfmodel'
    """
    parts = urlsplit(url)
    without = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(
            f"A service has a URL such as http://127.0.0.1:8000; got {without!r}."
        )
    if parts.query or parts.fragment or (parts.username and not parts.password):
        raise InvalidInputError(
            "The URL of a service has scheme, host, port and path; a key goes into api_key, or is "
            f"the password of the URL. Got {without!r}."
        )
    return without.rstrip("/")


def key_of(url: str) -> str | None:
    """Return the key that a URL has as its password, or None.

    Examples
    --------
    >>> key_of("https://any:pmk_key@example.org"), key_of("https://example.org")
    ('pmk_key', None)
    """
    password = urlsplit(url).password
    return None if password is None else unquote(password)


class Bases:
    """The hosts of a service; one is asked until it fails, then the next."""

    def __init__(self, urls: Sequence[str]) -> None:
        if not urls:
            raise InvalidInputError("A client needs the URL of a service; got none.")
        self._bases = tuple(base_of(url) for url in urls)
        self._at = 0

    @property
    def now(self) -> str:
        """The one that is asked."""
        return self._bases[self._at]

    def leave(self, base: str) -> None:
        """Go on to the next, unless another thread did so already."""
        if base == self.now:
            self._at = (self._at + 1) % len(self._bases)


def _encoded(call: Call[Any]) -> bytes | None:
    if call.body is None or isinstance(call.body, bytes):
        return call.body
    try:
        text = json.dumps(call.body, allow_nan=False, separators=(",", ":"), default=_plain_number)
        return text.encode()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The body for {call.path} cannot be written as JSON: {error}."
        ) from error


def _plain_number(value: object) -> float:
    """Return a number of another library, such as NumPy's, as one of Python."""
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def read_reply(call: Call[T], reply: Reply, *, request_id: str) -> T:
    """Return the answer that a reply holds.

    The request goes by ``request_id`` where the reply does not name it.

    Raises
    ------
    ProblemError
        It says that there is none.
    UnreadableAnswerError
        It is none of this service.
    """
    if reply.status in call.meaning:
        meant: T = call.meaning[reply.status]
        return meant
    content = _plain(reply)
    if not 200 <= reply.status < 300:
        _raise_problem(reply, content, request_id)
    try:
        return call.read(_json(content))
    except MisfitError as error:
        what = f"cannot be read{error}"
    except ValueError:
        what = "is no JSON"
    raise UnreadableAnswerError(f"The answer of {call.path} {what}: {content[:_BYTES_SHOWN]!r}")


def _raise_problem(reply: Reply, content: bytes, request_id: str) -> NoReturn:
    problem = Problem(status=reply.status, detail=f"The service answered {reply.status}.")
    # A proxy on the way answers in its own words; then the status says enough.
    with contextlib.suppress(ValueError, TypeError):
        problem = reader(Problem)({**_json(content), "status": reply.status})
    raise problem_error(
        problem,
        request_id=reply.headers.get("x-request-id", request_id),
        retry_after_s=retry_after_s(reply.headers.get("retry-after")),
    )


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

"""Read replies as answers, or as the errors that they are."""

from __future__ import annotations

import contextlib
import json
import zlib
from typing import Any, NoReturn, TypeVar

from perfmodel.client.decode import MisfitError, reader
from perfmodel.client.errors import Problem, UnreadableAnswerError, problem_error
from perfmodel.client.messages import Call, Reply
from perfmodel.client.retrying import retry_after_s

T = TypeVar("T")

#: Longest answer that is read; a matrix of 1,000,000 cells takes less.
MAX_BYTES = 128 * 1024 * 1024

_BYTES_SHOWN = 200


def read_reply(call: Call[T], reply: Reply, *, request_id: str) -> T:
    """Return the answer that a reply holds.

    Parameters
    ----------
    request_id : str
        As it was sent, in case that the reply names none.

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

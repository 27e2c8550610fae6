"""What a client raises where no answer came that can be used, and how to go on without.

::

    PerfModelError
    +-- NoAnswerError                no answer that can be used; catch it and go on without
        +-- UnreachableError         no connection, or it was dropped, or the client rests
        +-- TimedOutError            no whole answer in time
        +-- UnreadableAnswerError    an answer that is none of this service
        +-- ProblemError             the service said why, as RFC 9457 has it
            +-- UnavailableError     429 or 5xx: later, perhaps
            +-- RefusedError         4xx: asking again changes nothing
                +-- NotAllowedError  401, 403
                +-- NotFoundError    404

What is wrong before anything is sent (a URL that is none, NaN in a question) is an
:class:`~perfmodel.errors.InvalidInputError`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from perfmodel.errors import PerfModelError

T = TypeVar("T")
D = TypeVar("D")

LOG = logging.getLogger(__name__)


class NoAnswerError(PerfModelError):
    """No answer came that can be used: down, slow, refusing or garbage.

    The log of the service has it under ``request_id``, which is empty where nothing was sent.
    """

    def __init__(self, message: str, *, request_id: str = "") -> None:
        super().__init__(message)
        self.request_id = request_id


class UnreachableError(NoAnswerError):
    """No connection came about, or it was dropped, or the client rests after such a failure."""


class TimedOutError(NoAnswerError):
    """The whole answer was not there in time."""


class UnreadableAnswerError(NoAnswerError):
    """An answer came that is none of this service: no JSON, other fields, too long."""


@dataclass(frozen=True, kw_only=True)
class ProblemItem:
    """What is wrong with one part of the request.

    ``allowed`` is what would be taken, where that can be listed.
    """

    pointer: Annotated[str, "JSON pointer (RFC 6901) to it; empty for the whole."] = ""
    detail: str = ""
    allowed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """An error (RFC 9457).

    ``status`` is that of HTTP, ``did_you_mean`` has names close to one that is not known.
    """

    type: str = "about:blank"
    title: str = ""
    status: int
    detail: str = ""
    errors: tuple[ProblemItem, ...] = ()
    did_you_mean: tuple[str, ...] = ()


class ProblemError(NoAnswerError):
    """The service said why it does not answer, and perhaps when it may be asked again."""

    def __init__(
        self, problem: Problem, *, request_id: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(
            problem.detail or problem.title or f"The service answered {problem.status}.",
            request_id=request_id,
        )
        self.problem = problem
        self.retry_after_s = retry_after_s

    @property
    def status(self) -> int:
        """Status of HTTP."""
        return self.problem.status

    @property
    def pointer(self) -> str:
        """JSON pointer to what is wrong first; empty for the whole."""
        return self.problem.errors[0].pointer if self.problem.errors else ""

    @property
    def allowed(self) -> tuple[str, ...]:
        """What would be taken in its place, where that can be listed."""
        return self.problem.errors[0].allowed if self.problem.errors else ()

    @property
    def did_you_mean(self) -> tuple[str, ...]:
        """Names close to one that is not known, best first."""
        return self.problem.did_you_mean


class UnavailableError(ProblemError):
    """Overloaded, limited, restarting or defective."""


class RefusedError(ProblemError):
    """The request is wrong; asking again changes nothing."""


class NotAllowedError(RefusedError):
    """No key, or one without the scope that the route needs."""


class NotFoundError(RefusedError):
    """What was asked about is not there."""


def problem_error(
    problem: Problem, *, request_id: str, retry_after_s: float | None
) -> ProblemError:
    """Return the error of a status."""
    kind: type[ProblemError] = RefusedError
    if problem.status == 429 or problem.status >= 500:
        kind = UnavailableError
    elif problem.status in (401, 403):
        kind = NotAllowedError
    elif problem.status == 404:
        kind = NotFoundError
    return kind(problem, request_id=request_id, retry_after_s=retry_after_s)


def fail_open(ask: Callable[[], T], default: D) -> T | D:
    """Return an answer, or a default where none came: down, slow, refusing or garbage.

    How long that may take is the ``timeout_s`` of the client; its ``rest_s`` spares the callers
    that follow.

    Examples
    --------
    >>> def refused():
    ...     raise NoAnswerError("nobody there")
    >>> fail_open(refused, 1.0), fail_open(lambda: 2.0, 1.0)
    (1.0, 2.0)
    """
    try:
        return ask()
    except NoAnswerError as error:
        return _without(error, default)


async def fail_open_async(answer: Awaitable[T], default: D) -> T | D:
    """Return what is awaited, or a default where no answer came; as :func:`fail_open`."""
    try:
        return await answer
    except NoAnswerError as error:
        return _without(error, default)


def _without(error: NoAnswerError, default: D) -> D:
    LOG.warning("Going on without an answer: %s (request %s)", error, error.request_id or "-")
    return default

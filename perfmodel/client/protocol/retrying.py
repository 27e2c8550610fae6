"""When a request is sent again, and how long is waited before."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from perfmodel.client.errors import NoAnswerError, UnavailableError, UnreachableError

#: Statuses that speak of the moment, not of the request.
PASSING = frozenset({429, 502, 503, 504})
_NOT_IN_TIME = "urn:perfmodel:problem:not-in-time"


@dataclass(frozen=True, kw_only=True)
class Retrying:
    """Exponential back-off with jitter.

    ``wait_n = u * min(most_s, first_s * 2^n)`` with u uniform in (0.5, 1], so that callers who
    failed together do not come back together; never less than the service asked for.

    Every request of this client may be sent twice. Questions change nothing; jobs and graphs are
    kept under the hash of their content, observations under their key, and setting or removing by
    name leaves the same behind however often it is done.

    A request is sent again ``most`` times; ``chance`` returns a number in [0, 1).
    """

    most: int = 2
    first_s: float = 0.1
    most_s: float = 5.0
    chance: Callable[[], float] = random.Random().random

    def wait_s(self, sent: int, error: NoAnswerError) -> float | None:
        """Return seconds to wait after it was sent so often, >= 1; None: it is not worth it."""
        if sent > self.most or not _is_passing(error):
            return None
        backoff_s = min(self.most_s, self.first_s * 2.0 ** (sent - 1))
        asked_s = error.retry_after_s if isinstance(error, UnavailableError) else None
        return max((1.0 - 0.5 * self.chance()) * backoff_s, asked_s or 0.0)


def _is_passing(error: NoAnswerError) -> bool:
    if isinstance(error, UnavailableError):
        # Past its own ``deadline_ms`` nobody waits for the answer any more.
        return error.status in PASSING and error.problem.type != _NOT_IN_TIME
    return isinstance(error, UnreachableError)


def retry_after_s(written: str | None) -> float | None:
    """Read ``Retry-After``: seconds, or a date.

    Examples
    --------
    >>> retry_after_s("3"), retry_after_s("soon"), retry_after_s(None)
    (3.0, None, None)
    >>> retry_after_s("Thu, 01 Jan 1970 00:00:00 GMT")
    0.0
    """
    if written is None:
        return None
    if written.strip().isdigit():
        return float(written)
    try:
        when = parsedate_to_datetime(written)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())

"""How many requests each caller may send: a bucket of tokens a key."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

#: Callers that are remembered; a bucket that was forgotten starts full.
MAX_CALLERS = 10_000


class RateLimiter:
    """Grants requests at a steady rate, with some in one go.

    A bucket holds at most ``b`` tokens and gains ``r`` a second; each request takes one, so that
    over any time ``t`` a caller gets at most ``b + r t`` requests. One limiter counts in one
    process: with ``n`` workers a caller may get ``n`` times as much.

    Parameters
    ----------
    rate_per_s : float
        For callers without a rate of their own; 0: no limit.
    burst_s : float
        Seconds of its rate that a caller may use at once: ``b = max(1, r * burst_s)``.

    Examples
    --------
    >>> limiter = RateLimiter(rate_per_s=2, burst_s=1, clock=lambda: 0.0)
    >>> [limiter.wait_s("a") for _ in range(3)]
    [0.0, 0.0, 0.5]
    """

    def __init__(
        self,
        *,
        rate_per_s: float = 0.0,
        burst_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate_per_s = rate_per_s
        self._burst_s = burst_s
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, caller: str, rate_per_s: float | None = None) -> float:
        """Take a token of a caller.

        Returns
        -------
        float
            0: granted. Else the seconds until a token will be there; none was taken.
        """
        rate = self._rate_per_s if rate_per_s is None else rate_per_s
        if rate <= 0:
            return 0.0
        now = self._clock()
        full = max(1.0, rate * self._burst_s)
        tokens, seen_at = self._buckets.get(caller, (full, now))
        tokens = min(full, tokens + rate * (now - seen_at))
        granted = tokens >= 1.0
        self._buckets[caller] = (tokens - 1.0 if granted else tokens, now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if granted else (1.0 - tokens) / rate

"""Do not ask again and again what does not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from perfmodel.errors import StoreError


class Breaker:
    """Refuses at once for a while after something failed; may be shared by threads.

    After the pause one caller tries; until it knows more, all others are refused.

    Parameters
    ----------
    trial_s : float
        Time that a trial takes at most, seconds; then another may try.

    Examples
    --------
    >>> breaker = Breaker(pause_s=1.0, trial_s=5.0, clock=lambda: 0.0)
    >>> breaker.check()
    >>> breaker.failed()
    >>> breaker.check()
    Traceback (most recent call last):
    perfmodel.errors.StoreError: The database did not answer lately. It is tried again in 1 s.
    """

    def __init__(
        self, *, pause_s: float, trial_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pause_s = pause_s
        self._trial_s = trial_s
        self._clock = clock
        self._lock = threading.Lock()
        self._closed_until: float | None = None

    def check(self) -> None:
        """Let a caller try, or not.

        Raises
        ------
        StoreError
            It failed lately, or somebody else is trying.
        """
        if self._closed_until is None:
            return
        with self._lock:
            now = self._clock()
            if self._closed_until is not None and now < self._closed_until:
                raise StoreError(
                    f"The database did not answer lately. It is tried again in {self._pause_s:g} s."
                )
            if self._closed_until is not None:
                self._closed_until = now + self._trial_s

    def failed(self) -> None:
        """Note that it did not answer."""
        with self._lock:
            self._closed_until = self._clock() + self._pause_s

    def worked(self) -> None:
        """Note that it answered."""
        if self._closed_until is not None:
            with self._lock:
                self._closed_until = None

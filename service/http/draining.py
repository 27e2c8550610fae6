"""End without losing a request: say so for a while, then stop listening."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)


class Draining:
    """Whether this process is about to end.

    After SIGTERM it goes on to answer for a while, readiness says no, and every answer closes its
    connection, so that callers and balancers go elsewhere before anybody is cut off. Then the
    server does what it does at the signal: it stops listening and finishes what it has.

    Parameters
    ----------
    for_s : float
        How long that is said, seconds; 0 leaves the signal to the server.
    """

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self.has_begun = False
        self._before: Any = None

    def install(self) -> None:
        """Take SIGTERM over from the server that runs the loop, in its main thread."""
        is_main = threading.current_thread() is threading.main_thread()
        if not self._for_s or not is_main:
            return
        loop = asyncio.get_running_loop()
        self._before = signal.getsignal(signal.SIGTERM)

        def begin(number: int, frame: FrameType | None) -> None:
            # The second signal is for the server.
            signal.signal(signal.SIGTERM, self._before)
            self.has_begun = True
            loop.call_soon_threadsafe(loop.call_later, self._for_s, self._end, number)

        if callable(self._before):
            signal.signal(signal.SIGTERM, begin)

    def _end(self, number: int) -> None:
        logger.info("ending: no more connections are taken, open requests are answered")
        before: Callable[[int, FrameType | None], object] = self._before
        before(number, None)

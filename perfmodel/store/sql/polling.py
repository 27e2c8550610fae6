"""Threads that look at the database from time to time."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from perfmodel.errors import StoreError

logger = logging.getLogger(__name__)


class PollingThread(ABC):
    """Looks again and again in a thread of its own, from its start until it is closed.

    Parameters
    ----------
    every_s : float
        How often it looks.
    complaint : str
        What cannot be done without the database; it is logged once each time that this is away.

    Attributes
    ----------
    problem : str or None
        What could not be done at the last look, and why; None: nothing.
    """

    def __init__(self, name: str, *, every_s: float, complaint: str) -> None:
        self._name = name
        self._every_s = every_s
        self._complaint = complaint
        self.problem: str | None = None
        self._ended = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def poll(self) -> object:
        """Look once, and do what there is to do.

        Raises
        ------
        StoreError
            The database cannot be used.
        """

    def start(self) -> None:
        """Begin to look; nothing where it has begun, or was closed."""
        with self._starting:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        with self._starting:
            # It may be about to be started.
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self.poll()
                self.problem = None
            except StoreError as error:
                found = f"{self._complaint}: {error}"
                if self.problem is None:
                    logger.warning("%s", found)
                self.problem = found
            except Exception:
                # One that cannot follow must not keep the others from following.
                logger.exception("a change could not be followed")

"""Follow the folder of trained models for as long as the service runs."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from service.answering.threads import AnswerThreads
from service.errors import OverloadedError
from service.versions.folder import ModelFolder
from service.versions.shelf import ModelShelf, Swap

logger = logging.getLogger(__name__)


class ModelWatch:
    """Lets a version that appears in the folder serve, in this process.

    Several processes each look for themselves, so that all follow within a poll and a load.

    Parameters
    ----------
    threads : AnswerThreads
        One thread: no two versions are loaded at a time.
    poll_s : float
        How often the folder is looked at; 0: only when told to.
    """

    def __init__(
        self, shelf: ModelShelf, folder: ModelFolder, threads: AnswerThreads, *, poll_s: float
    ) -> None:
        self._shelf = shelf
        self._folder = folder
        self._threads = threads
        self._poll_s = poll_s
        self._told: set[asyncio.Task[Swap]] = set()

    async def reload(self) -> Swap:
        """Look into the folder now.

        Raises
        ------
        OverloadedError
            Too many versions wait to be loaded.
        """
        return await self._threads.run(self._shelf.reload)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look from time to time, and on SIGHUP."""
        loop = asyncio.get_running_loop()
        # Not on every platform, and only in the thread that gets signals.
        with suppress(NotImplementedError, RuntimeError, ValueError, AttributeError):
            loop.add_signal_handler(signal.SIGHUP, self._on_signal)
        polling = loop.create_task(self._poll()) if self._poll_s else None
        try:
            yield
        finally:
            if polling is not None:
                polling.cancel()

    def _on_signal(self) -> None:
        task = asyncio.get_running_loop().create_task(self.reload())
        # Kept, since the event loop itself holds tasks only weakly.
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                if await self._threads.run(self._folder.has_changed):
                    await self.reload()
            except OverloadedError:
                continue  # versions are being loaded; the folder is looked at again
            except Exception:
                # A folder that cannot be read now may be later; what serves goes on.
                logger.exception("the folder of models could not be looked at")

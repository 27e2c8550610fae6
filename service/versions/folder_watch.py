"""Notice what changes in the folder of trained models, for as long as the service runs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from perfmodel.registry.pins import PINS
from service.answering.thread_pool import ThreadPool
from service.http.errors import OverloadedError
from service.versions.loaded_versions import LoadedVersions, Swap
from service.versions.model_source import ModelSource

logger = logging.getLogger(__name__)

#: Deeper than any file of a model lies.
_DEPTH = 5

Signature = tuple[tuple[str, int, int], ...]


class ModelFolder:
    """A folder of trained models that is looked at from time to time.

    Parameters
    ----------
    path : Path
        Holds ``<name>/<version>/``; may be missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = _signature(path)

    def has_changed(self) -> bool:
        """Tell whether anything was added, written or removed since it was asked last."""
        before, self._seen = self._seen, _signature(self.path)
        return before != self._seen


class ModelWatch:
    """Lets the version serve, in this process, that the store of models says.

    Several processes each look for themselves, so that all follow within a poll and a load.

    Parameters
    ----------
    loads : ThreadPool
        One thread: no two versions are loaded at a time.
    looks : ThreadPool
        Another thread, which waits for the store.
    poll_s : float
        How often the store is looked at; 0: only when told to.
    """

    def __init__(
        self,
        versions: LoadedVersions,
        source: ModelSource,
        loads: ThreadPool,
        looks: ThreadPool,
        *,
        poll_s: float,
    ) -> None:
        self._versions = versions
        self._source = source
        self._folder = ModelFolder(source.folder)
        self._threads = loads
        self._looks = looks
        self._poll_s = poll_s
        self._told: set[asyncio.Task[Swap]] = set()

    async def reload(self) -> Swap:
        """Look into the store now."""
        await self._looks.run(self._source.look)
        return await self._threads.run(self._versions.reload)

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
                await self._looks.run(self._source.look)
                if await self._threads.run(self._folder.has_changed):
                    await self._threads.run(self._versions.reload)
            except OverloadedError:
                continue  # versions are being loaded; the folder is looked at again
            except Exception:
                # A folder that cannot be read now may be later; what serves goes on.
                logger.exception("the folder of models could not be looked at")


def _signature(path: Path) -> Signature:
    """Return name, size and time of every file; whatever is not readable is not there."""
    return tuple(sorted(_files(str(path), _DEPTH)))


def _files(folder: str, depth: int) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=True):
                    if depth and not entry.name.startswith(".") and entry.name != PINS:
                        yield from _files(entry.path, depth - 1)
                else:
                    facts = entry.stat()
                    yield entry.path, facts.st_size, facts.st_mtime_ns
    except OSError:
        return

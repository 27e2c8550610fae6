"""Where a service has its models from: a local folder, or the local copy of a store elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from perfmodel.errors import StoreError
from perfmodel.registry.file_store import LocalFiles, is_url, open_store
from perfmodel.registry.mirror import ModelMirror
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.store.artifacts import KERNELS, names
from service.settings import Settings

logger = logging.getLogger(__name__)


class ModelSource:
    """The registry of models, and the local folder that they are loaded from.

    Its methods wait for the store, and are for a thread that nothing else waits for; what does not
    wait is told by :attr:`problems` and :attr:`folder`.

    Parameters
    ----------
    on_look : callable
        Called with whether the store could be reached, and the time of the last time it could,
        seconds since 1970.
    """

    def __init__(
        self, settings: Settings, *, on_look: Callable[[bool, float], None] = lambda *_: None
    ) -> None:
        self.folder: Path = settings.models_folder
        self._on_look = on_look
        self._seen_at = 0.0
        self._was_there = self.folder.is_dir()
        self._mirror: ModelMirror | None = None
        if is_url(settings.models):
            files = open_store(settings.models, settings.models_options)
            self._mirror = ModelMirror(files, self.folder)
            self.registry = self._mirror.registry
        else:
            self.registry = ModelRegistry(LocalFiles(self.folder))
        #: What is wrong with the store now.
        self.problems: tuple[str, ...] = ()

    def look(self) -> None:
        """Follow the store; where it is away, say so and leave everything as it is."""
        try:
            found = self._look()
        except StoreError as error:
            if not self.problems:
                logger.error("what serves goes on: %s", error)
            self.problems = (f"{error.message} What serves goes on.",)
            self._on_look(False, self._seen_at)
            return
        self.problems = found
        self._seen_at = time.time()
        self._on_look(True, self._seen_at)

    def models_of_steps(self) -> list[str]:
        """Return the names of the models that are here and answer for steps."""
        return [name for name in names(self.folder) if name != KERNELS]

    def fetch(self, version: str) -> None:
        """Have the files of a version here that is in the store.

        Parameters
        ----------
        version : str
            ``"<name>/<version>"``.
        """
        if self._mirror is not None:
            self._mirror.fetch(*version.split("/", 1))

    def note_pin(self, version: str) -> None:
        """Note in the store that a version was pinned, so that it is not collected."""
        if not (self.folder / version).is_dir():
            return  # it is in memory alone
        try:
            self.registry.pins.note(*version.split("/", 1))
        except StoreError as error:
            logger.warning("the pin of %s is not noted: %s", version, error)

    def _look(self) -> tuple[str, ...]:
        if self._mirror is not None:
            return self._mirror.sync()
        if self._was_there and not self.folder.is_dir():
            raise StoreError(f"The folder of models {self.folder} is gone.")
        self.registry.versions.names()
        self._was_there = self._was_there or self.folder.is_dir()
        return ()

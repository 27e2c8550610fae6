"""Let versions that are shadows answer what was asked, one process of all at a time."""

from __future__ import annotations

import logging
import time
from typing import Any, final

from perfmodel.errors import PerfModelError
from perfmodel.registry.file_store import LocalFiles
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import State as VersionState
from perfmodel.store.shadow.comparisons import Comparison, ComparisonStore
from perfmodel.store.shadow.shadow_runs import ShadowRun, ShadowRunStore
from perfmodel.store.sql.connections import is_in_memory
from perfmodel.store.sql.leases import new_owner
from perfmodel.store.sql.polling import PollingThread
from service.settings import Settings
from service.shadow.run_child import ChildFailedError, comparing_child
from service.state.state import State
from service.versions.loaded_versions import LoadedVersions
from service.versions.model_source import ModelSource

logger = logging.getLogger(__name__)

#: A comparison whose process is not heard of for so long is taken over, seconds.
_LEASE_S = 60.0
#: How long nobody tries again after one that ended badly, seconds.
_PAUSE_S = 30.0


@final
class ShadowWatch(PollingThread):
    """Looks for versions that are shadows and for questions that they have not answered yet.

    Everything is done in a thread of its own, which waits most of the time, and by a child process
    that steps back behind everything else on the machine. No answer waits for either.

    Parameters
    ----------
    settings : Settings
        How often it is looked, and what a child may take.
    """

    def __init__(
        self, source: ModelSource, versions: LoadedVersions, state: State, settings: Settings
    ) -> None:
        super().__init__(
            "shadow", every_s=settings.shadow_poll_s, complaint="shadows cannot be compared"
        )
        self._source = source
        self._versions = versions
        self._settings = settings
        self._database = state.database.url
        connections = state.database.connections
        self._runs = ShadowRunStore(connections)
        self._comparisons = ComparisonStore(connections)
        # What is here of a store elsewhere: every change of state is, and nobody waits for it.
        self._registry = ModelRegistry(LocalFiles(source.folder))
        self._owner = new_owner()

    def start(self) -> None:
        """Begin to look, where another process can compare and it is looked at all."""
        if self._every_s and self.can_compare:
            super().start()

    def poll(self) -> None:
        """Compare what waits, of every version that is a shadow.

        Raises
        ------
        StoreError
            The database cannot be used.
        """
        for model in self.shadows():
            if self._runs.find(model) is None:
                self._runs.enter(model)
            if self._ended.is_set() or not self._waits(model):
                continue
            held = self._runs.take(model, self._owner, lease_s=_LEASE_S)
            if held is not None:
                self._compare(held)

    def shadows(self) -> list[str]:
        """Return the versions that are shadows now."""
        return [
            f"{name}/{version}"
            for name in self._registry.versions.names()
            for version, state in self._registry.history(name).states.items()
            if state is VersionState.SHADOW
        ]

    @property
    def can_compare(self) -> bool:
        """Whether another process can read the database; one in memory is that of one process."""
        return not is_in_memory(self._database)

    def _waits(self, model: str) -> bool:
        return self._comparisons.waiting(model, self._versions.serving.version) > 0

    def _compare(self, held: ShadowRun) -> None:
        problem: str | None = None
        try:
            self._source.fetch(held.name)
            if not self._let_compare(held):
                return  # somebody else has it
        except (PerfModelError, ChildFailedError, OSError) as error:
            problem = error.message if isinstance(error, PerfModelError) else str(error)
            logger.warning("%s is not compared: %s", held.name, problem)
        self._runs.end(held, problem, wait_s=_PAUSE_S if problem else 0.0)

    def _let_compare(self, held: ShadowRun) -> bool:
        """Let a child compare; returns whether this process still has the lease."""
        renewed_s = time.monotonic()
        with comparing_child(self._header(held.name)) as child:
            for told in child.lines():
                if told is not None:
                    found = [Comparison(**one) for one in told["comparisons"]]
                    self._comparisons.add(held.name, told["against"], found)
                if time.monotonic() - renewed_s > _LEASE_S / 6:
                    renewed_s = time.monotonic()
                    if not self._runs.renew(self._owner, [held.name], lease_s=_LEASE_S):
                        return False
                    if held.name not in self.shadows():
                        return True
                if self._ended.is_set():
                    return True
        return True

    def _header(self, model: str) -> dict[str, Any]:
        return {
            "model": model,
            "folder": str(self._source.folder.absolute()),
            "database": self._database,
            "most": self._settings.shadow_questions,
            "memory_bytes": self._settings.shadow_memory_bytes,
            "capture_timeout_s": self._settings.capture_timeout_s,
        }

"""What was asked, and what versions that nobody is told of would have answered."""

from __future__ import annotations

from perfmodel.client.shadowing import ShadowReport
from perfmodel.errors import InvalidInputError
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import Change
from perfmodel.shadow.shadow_report import read_report
from perfmodel.shadow.starting import begin_shadow
from perfmodel.store.shadow.asked_questions import AskedQuestionStore
from service.settings import Settings
from service.shadow.asked_questions import AskedQuestions
from service.shadow.shadow_watch import ShadowWatch
from service.state.state import State
from service.versions.loaded_versions import LoadedVersions
from service.versions.model_source import ModelSource


class Shadow:
    """Keeps what was asked last and compares versions on it; does nothing until it is started."""

    def __init__(
        self, source: ModelSource, versions: LoadedVersions, state: State, settings: Settings
    ) -> None:
        self._connections = state.database.connections
        store = AskedQuestionStore(
            self._connections,
            most=settings.shadow_questions,
            most_bytes=settings.shadow_questions_bytes,
        )
        #: Takes questions that were answered.
        self.asked = AskedQuestions(store, is_kept=settings.shadow_questions > 0)
        self.watch = ShadowWatch(source, versions, state, settings)

    def start(self) -> None:
        """Begin to keep what is asked, and to look for versions that are shadows."""
        self.asked.start()
        self.watch.start()

    def close(self) -> None:
        """End both."""
        self.asked.close()
        self.watch.close()

    def begin(self, registry: ModelRegistry, name: str, version: str, why: str) -> Change:
        """Let a version be a shadow, as :func:`~perfmodel.shadow.starting.begin_shadow`.

        Raises
        ------
        InvalidInputError
            The database is in the memory of this process, where none that compares can read it.
        """
        if not self.watch.can_compare:
            raise InvalidInputError(
                "No version can answer beside the one that serves: the database is in memory, and "
                "the process that would compare them cannot read it. Let PERFMODEL_DATABASE name a "
                "file or a server."
            )
        return begin_shadow(registry, self._connections, name, version, why=why)

    def report(
        self, registry: ModelRegistry, name: str, version: str, against: str | None
    ) -> ShadowReport:
        """Return what is known of a version that answers, or did, beside another.

        Raises
        ------
        UnknownNameError
            There is no such version.
        """
        manifest = registry.versions.manifest(name, version)
        trained_at = str(manifest.get("created_at", ""))
        model = f"{name}/{version}"
        return read_report(self._connections, model, against=against, trained_at=trained_at)

"""A local copy of what a host needs of a store elsewhere.

Answers never wait for the store: models are loaded from a local folder of the same layout, which
follows the store and outlives its absence, and a restart. It holds every change of state and every
manifest, and the files of the versions that may serve or were asked for.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from perfmodel.errors import DamagedArtifactError, StoreError
from perfmodel.registry.file_store import (
    FileStore,
    LocalFiles,
    is_url,
    open_store,
    without_credentials,
)
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.state_log import STATES
from perfmodel.registry.states import History, State
from perfmodel.store.artifacts import (
    MANIFEST,
    Artifact,
    manifest_bytes,
    parse_manifest,
    version_key,
)

logger = logging.getLogger(__name__)

#: The folder of a model that holds the manifests of versions whose files are elsewhere.
MANIFESTS = "_manifests"

#: Versions of each model that are copied without being asked for: the one that serves, and the one
#: that does if it is damaged.
_COPIED = 2
#: Seconds for which a version that was found damaged is left alone.
_PAUSE_S = 60.0


def cache_folder(location: str) -> Path:
    """Return the local folder that follows a store; ``PERFMODEL_CACHE`` moves it."""
    base = os.environ.get("PERFMODEL_CACHE") or "~/.cache/perfmodel"
    digest = hashlib.sha256(location.encode()).hexdigest()[:16]
    return Path(base).expanduser() / "models" / digest


class ModelMirror:
    """Lets a local folder follow a store.

    Several processes of a host may follow with the same folder: whatever one of them writes
    appears in full, and is what the others would have written.
    """

    def __init__(
        self, files: FileStore, folder: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.registry = ModelRegistry(files)
        self.folder = folder
        self._local = LocalFiles(folder)
        self._clock = clock
        self._damaged: dict[str, tuple[float, str]] = {}

    def sync(self) -> tuple[str, ...]:
        """Follow the store.

        Returns
        -------
        tuple of str
            What is wrong with versions that should be here; the others are.

        Raises
        ------
        StoreError
            The store cannot be reached. What is here stays as it is.
        """
        problems: list[str] = []
        for name in self.registry.versions.names():
            history = self.registry.history(name)
            self._copy_changes(name, history)
            problems += [*history.damaged, *self._copy_versions(name, history)]
            self._remove_deleted(name, history)
        return tuple(problems)

    def fetch(self, name: str, version: str) -> Path:
        """Copy a version that is not here yet.

        Raises
        ------
        DamagedArtifactError
            A file of it is not what was written.
        UnknownNameError
            It is not in the store.
        StoreError
            The store cannot be reached.
        """
        return self.registry.versions.fetch(name, version, self.folder)

    def _copy_changes(self, name: str, history: History) -> None:
        here = set(self._local.files(f"{name}/{STATES}"))
        for change in history.changes:
            if change.file_name not in here:
                self._local.write(f"{name}/{STATES}/{change.file_name}", change.to_bytes())

    def _copy_versions(self, name: str, history: History) -> list[str]:
        listed = self.registry.listed(name, history)
        problems = [one.problem for one in listed if one.problem]
        sound = {one.version: one.manifest for one in listed if one.manifest is not None}
        self._copy_manifests(name, sound)
        for version in history.may_serve(list(sound))[:_COPIED]:
            try:
                self._fetch_unless_damaged(name, version)
            except DamagedArtifactError as error:
                problems.append(error.message)
        return problems

    def _copy_manifests(self, name: str, manifests: Mapping[str, Mapping[str, Any]]) -> None:
        folder = f"{name}/{MANIFESTS}"
        wanted = {f"{version}.json": manifest for version, manifest in manifests.items()}
        here = set(self._local.files(folder))
        for file_name in wanted.keys() - here:
            self._local.write(f"{folder}/{file_name}", manifest_bytes(wanted[file_name]))
        for gone in here - wanted.keys():
            self._local.remove(f"{folder}/{gone}")

    def _fetch_unless_damaged(self, name: str, version: str) -> None:
        key = f"{name}/{version}"
        until, message = self._damaged.get(key, (0.0, ""))
        if self._clock() < until:
            raise DamagedArtifactError(message)
        try:
            self.fetch(name, version)
            self._damaged.pop(key, None)
        except DamagedArtifactError as error:
            self._damaged[key] = (self._clock() + _PAUSE_S, error.message)
            raise

    def _remove_deleted(self, name: str, history: History) -> None:
        for version in self._local.folders(name):
            if history.states.get(version) is State.DELETED:
                self._local.remove_folder(f"{name}/{version}", MANIFEST)


def manifests_elsewhere(folder: Path, name: str) -> list[Artifact]:
    """Return the versions of a copy of which only the manifest is here, newest first."""
    found = []
    for path in (folder / name / MANIFESTS).glob("*.json"):
        version = folder / name / path.stem
        # One that another process removes meanwhile, or cannot be read, is not listed.
        with suppress(OSError, DamagedArtifactError):
            if not version.is_dir():
                manifest = parse_manifest(path.read_bytes(), path)
                found.append(Artifact(folder=version, manifest=manifest, damaged={}))
    return sorted(found, key=lambda one: version_key(one.folder.name), reverse=True)


def local_models(
    location: str | Path, options: Mapping[str, Any] | None = None, cache: Path | None = None
) -> Path:
    """Return a local folder of the models at a location; of a URL, its copy as of now.

    Parameters
    ----------
    location : str or Path
        A local folder is returned as it is.
    options : mapping or None
        What the file system of a URL takes besides.
    cache : Path or None
        Where the copy lies; None: :func:`cache_folder`.

    Raises
    ------
    StoreError
        The store cannot be reached, and nothing was ever copied from it.
    """
    if not is_url(location):
        return Path(location)
    folder = cache or cache_folder(str(location))
    try:
        ModelMirror(open_store(location, options), folder).sync()
    except StoreError:
        if not folder.is_dir():
            raise  # nothing was ever copied
        place = without_credentials(str(location))
        logger.warning("%s cannot be reached; its copy in %s answers", place, folder)
    return folder

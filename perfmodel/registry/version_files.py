"""The files of versions in a store: listed, published, compared with their manifests, removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from perfmodel.errors import (
    DamagedArtifactError,
    StoreError,
    UnknownModelVersionError,
    UnknownPredictorError,
)
from perfmodel.registry.file_store import FileStore
from perfmodel.store.artifacts import (
    MANIFEST,
    difference,
    is_safe_name,
    parse_manifest,
    read_artifact,
    version_key,
)
from perfmodel.store.durable import write_whole_folder


class VersionFiles:
    """The versions that lie in a store; what was read of a sound manifest is remembered."""

    def __init__(self, files: FileStore) -> None:
        self.files = files
        self._manifests: dict[str, dict[str, Any]] = {}

    def names(self) -> list[str]:
        """Return the names of all models."""
        return [name for name in self.files.folders("") if is_safe_name(name)]

    def versions(self, name: str) -> list[str]:
        """Return the versions of a model, newest first; damaged and half-written ones too."""
        found = [one for one in self.files.folders(name) if is_safe_name(one)]
        return sorted(found, key=version_key, reverse=True)

    def manifest(self, name: str, version: str) -> dict[str, Any]:
        """Return what a version says of itself.

        Raises
        ------
        UnknownModelVersionError
            It is not there, or not there in full yet.
        DamagedArtifactError
            Its manifest is not what was written.
        """
        key = f"{name}/{version}"
        if key not in self._manifests:
            path = f"{key}/{MANIFEST}"
            content = (
                self.files.read(path) if is_safe_name(name) and is_safe_name(version) else None
            )
            if content is None:
                raise self.unknown(name, version)
            self._manifests[key] = parse_manifest(content, f"{self.files.place}/{path}")
        return self._manifests[key]

    def unknown(self, name: str, version: str) -> UnknownModelVersionError | UnknownPredictorError:
        """Return the error of a version that is not there."""
        names = self.names()
        if name not in names:
            hint = f"There is no such model in {self.files.place}; run training."
            return UnknownPredictorError(name, known=names, hint=hint)
        known = [f"{name}/{one}" for one in self.versions(name)]
        return UnknownModelVersionError(
            f"{name}/{version}", known=known, hint="`perfmodel models list` lists them."
        )

    def content(self, name: str, version: str) -> dict[str, bytes]:
        """Return every file of a version, the manifest last, each compared with the manifest.

        Raises
        ------
        DamagedArtifactError
            A file is missing or not what was written; names it.
        """
        key = f"{name}/{version}"
        self._manifests.pop(key, None)
        manifest = self.manifest(name, version)
        found = {path: self._sound(key, path, entry) for path, entry in manifest["files"].items()}
        content = self.files.read(f"{key}/{MANIFEST}")
        parse_manifest(content or b"", f"{key}/{MANIFEST}")
        return {**found, MANIFEST: content or b""}

    def fetch(self, name: str, version: str, into: Path) -> Path:
        """Copy a version into a local folder of models; it appears in full or not at all.

        Raises
        ------
        DamagedArtifactError
            A file is not what was written; nothing appears.
        """
        folder = into / name / version
        if folder.is_dir():
            return folder
        content = self.content(name, version)
        try:
            write_whole_folder(folder, content)
        except OSError as error:
            if not folder.is_dir():  # another process was faster
                raise StoreError(f"{folder} could not be written: {error}.") from error
        return folder

    def publish(self, folder: Path, name: str, version: str, *, taken: Collection[str] = ()) -> str:
        """Copy a version from a local folder into the store; it is visible in full or not at all.

        Parameters
        ----------
        taken : collection of str
            Versions that it may not have, besides those that are there.

        Returns
        -------
        str
            The version; another than asked for if that was taken.

        Raises
        ------
        DamagedArtifactError
            The folder is not what its manifest says.
        StoreError
            The store cannot be written. What was written is no version, and is removed if it can
            be.
        """
        content = _local_content(folder)
        taken, free, copy = {*self.versions(name), *taken}, version, 2
        while free in taken:
            free, copy = f"{version}.{copy}", copy + 1
        try:
            self.files.write_folder(f"{name}/{free}", content)
        except StoreError:
            self._tidy(name, free)
            raise
        return free

    def put(self, folder: Path, name: str, version: str) -> bool:
        """Copy a version from a local folder into the store under a name of its own, once.

        Called again after it was interrupted, it finishes what it began.

        Returns
        -------
        bool
            False where it was there already.

        Raises
        ------
        DamagedArtifactError
            The folder is not what its manifest says.
        StoreError
            Another version has that name, or the store cannot be written.
        """
        content = _local_content(folder)
        there = self.files.read(f"{name}/{version}/{MANIFEST}")
        if there is None:
            self.files.write_folder(f"{name}/{version}", content)
        elif there != content[MANIFEST]:
            raise StoreError(f"Another version is called {name}/{version}; versions never change.")
        return there is None

    def remove(self, name: str, version: str) -> None:
        """Remove the files of a version; from the first one on it is none."""
        self._manifests.pop(f"{name}/{version}", None)
        self.files.remove_folder(f"{name}/{version}", MANIFEST)

    def _tidy(self, name: str, version: str) -> None:
        try:
            self.remove(name, version)
        except StoreError:
            return  # what is left has no manifest, and is no version

    def _sound(self, key: str, path: str, entry: Mapping[str, Any]) -> bytes:
        # A manifest is vouched for by its digest alone, which whoever wrote it could make.
        safe = all(is_safe_name(part) for part in path.split("/"))
        content = self.files.read(f"{key}/{path}") if safe else None
        reason = "it is not there" if content is None else difference(content, entry)
        if content is None or reason:
            raise DamagedArtifactError(
                f"The file {path} of the model {key} is damaged: {reason}. Restore it or train the "
                "model again."
            )
        return content


def _local_content(folder: Path) -> dict[str, bytes]:
    artifact = read_artifact(folder)
    artifact.check("")
    paths = [*artifact.manifest["files"], MANIFEST]
    return {path: (folder / path).read_bytes() for path in paths}

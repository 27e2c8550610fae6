"""Trained models on disk: ``models/<name>/<version>/`` with a manifest that vouches for all.

``manifest.json`` holds the SHA-256 and the size of every other file, and its own digest over
everything else it says. A version appears under its name only when all its files are safely on
disk. Files are JSON or safetensors; nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.errors import (
    DamagedArtifactError,
    InvalidInputError,
    StoreError,
    UnknownPredictorError,
)
from perfmodel.store.durable import write_whole_folder

MANIFEST = "manifest.json"
#: Name of the model that answers for single kernels; all others answer for steps.
KERNELS = "kernels"
FORMAT_VERSION = 1

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: Characters of the name of a model.
_LONGEST_NAME = 100
#: No file of an artefact is larger; a manifest that says otherwise is damaged.
_LARGEST_FILE_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One version of a trained model.

    Parameters
    ----------
    damaged : mapping of str to str
        Files whose content is not what was written, by their path in the folder, with the
        reason; empty for a sound artefact.
    """

    folder: Path
    manifest: Mapping[str, Any]
    damaged: Mapping[str, str]

    @property
    def name(self) -> str:
        """Name and version, ``"<name>/<version>"``."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    def check(self, prefix: str) -> None:
        """Refuse damaged files under a prefix.

        Parameters
        ----------
        prefix : str
            A file, or a folder with a trailing slash; ``""`` for all.

        Raises
        ------
        DamagedArtifactError
            Names the file and the reason.
        """
        for path, reason in self.damaged.items():
            if path.startswith(prefix):
                raise DamagedArtifactError(
                    f"The file {path} of the model {self.name} is damaged: {reason}. Restore it "
                    "or train the model again."
                )


def write_artifact(folder: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> Path:
    """Write a version of a model; it is there in full or not at all.

    Parameters
    ----------
    folder : Path
        ``models/<name>/<version>``; where that is taken, ``.2``, ``.3`` and so on are appended.
    manifest : mapping
        JSON-able facts: data digest, columns, scores, versions, devices, licence.

    Returns
    -------
    Path
        Where it is.

    Raises
    ------
    StoreError
        The disk refuses.
    """
    for path in files:
        if path == MANIFEST or not all(_SAFE_NAME.fullmatch(part) for part in path.split("/")):
            raise StoreError(f"{path!r} cannot be the name of a file of an artefact.")
    entries = {
        path: {"sha256": hashlib.sha256(content).hexdigest(), "size_bytes": len(content)}
        for path, content in sorted(files.items())
    }
    body = {**manifest, "format_version": FORMAT_VERSION, "files": entries}
    content = {**files, MANIFEST: manifest_bytes(body)}
    free, copy = folder, 2
    while True:
        try:
            write_whole_folder(free, content)
            return free
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY) or not free.is_dir():
                raise StoreError(
                    f"The model version {free} could not be written: {error}."
                ) from error
        # Somebody else's version, which never changes.
        free, copy = folder.with_name(f"{folder.name}.{copy}"), copy + 1


def read_artifact(folder: Path) -> Artifact:
    """Read the manifest of a version and compare every file with it.

    Returns
    -------
    Artifact
        Files that are damaged or missing are listed, not raised: one bad member need not take
        the others down.

    Raises
    ------
    DamagedArtifactError
        The manifest itself is missing or not what was written.
    """
    manifest = _read_manifest(folder / MANIFEST)
    damaged = {}
    for path, entry in manifest["files"].items():
        reason = _compare(folder / path, entry)
        if reason:
            damaged[path] = reason
    return Artifact(folder=folder, manifest=manifest, damaged=damaged)


def versions(models: Path, name: str) -> list[Path]:
    """Return the version folders of a model, newest first.

    Raises
    ------
    UnknownPredictorError
        There is no model of that name.
    """
    folder = models / name
    found: Sequence[Path] = ()
    if _SAFE_NAME.fullmatch(name) and folder.is_dir():
        found = [p for p in folder.iterdir() if p.is_dir() and _SAFE_NAME.fullmatch(p.name)]
    if not found:
        raise UnknownPredictorError(
            name, known=names(models), hint=f"No trained model lies in {folder}; run training."
        )
    return sorted(found, key=lambda folder: version_key(folder.name), reverse=True)


def names(models: Path) -> list[str]:
    """Return the names of all models of a folder."""
    if not models.is_dir():
        return []
    return sorted(p.name for p in models.iterdir() if p.is_dir() and _SAFE_NAME.fullmatch(p.name))


def latest(models: Path, name: str) -> Artifact:
    """Return the newest sound version of a model; failing that, the newest readable one.

    Raises
    ------
    DamagedArtifactError
        The manifest of every version is damaged.
    """
    readable: list[Artifact] = []
    reasons: list[str] = []
    for folder in versions(models, name):
        try:
            artifact = read_artifact(folder)
        except DamagedArtifactError as error:
            reasons.append(error.message)
            continue
        if not artifact.damaged:
            return artifact
        readable.append(artifact)
    if readable:
        return readable[0]
    raise DamagedArtifactError(f"Every version of the model {name!r} is damaged: {reasons[0]}")


def version_key(version: str) -> tuple[tuple[int, int | str], ...]:
    """Order versions by their numbers.

    Examples
    --------
    >>> sorted(["2026.10", "2026.9"], key=version_key)
    ['2026.9', '2026.10']
    """
    parts = re.findall(r"\d+|[^\d]+", version)
    return tuple((1, int(p)) if p.isdigit() else (0, p) for p in parts)


def manifest_bytes(body: Mapping[str, Any]) -> bytes:
    """Return a manifest as it is written, with its digest."""
    plain = {key: value for key, value in body.items() if key != "digest"}
    text = json.dumps(plain, sort_keys=True, allow_nan=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    full = json.dumps({**plain, "digest": digest}, sort_keys=True, allow_nan=False, indent=1)
    return (full + "\n").encode()


def named_version(version: str) -> tuple[str, str]:
    """Return name and version of what somebody names; a version alone is one of ``default``.

    Examples
    --------
    >>> named_version("mine/3"), named_version("3")
    (('mine', '3'), ('default', '3'))
    """
    name, slash, number = version.rpartition("/")
    return (name, number) if slash else ("default", version)


def is_safe_name(name: str) -> bool:
    """Tell whether a name can be that of a model, a version or a file of one."""
    return _SAFE_NAME.fullmatch(name) is not None


def check_model_name(name: str, *, pointer: str = "") -> None:
    """Refuse what cannot be the name of a model that answers for steps.

    Raises
    ------
    InvalidInputError
        A name that no folder can have, or the one of the model of single kernels.
    """
    if not is_safe_name(name) or len(name) > _LONGEST_NAME:
        raise InvalidInputError(
            f"{name[:_LONGEST_NAME]!r} cannot be the name of a model: letters, digits, dots and "
            f"dashes, at most {_LONGEST_NAME}.",
            pointer=pointer,
        )
    if name == KERNELS:
        raise InvalidInputError(
            f"{name!r} is the model of single kernels, which `perfmodel train-kernels` learns; a "
            "model of steps needs another name.",
            pointer=pointer,
        )


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedArtifactError(f"The manifest {path} cannot be read: {error}.") from error
    return parse_manifest(content, path)


def parse_manifest(content: bytes, path: object) -> dict[str, Any]:
    """Return what a manifest says.

    Parameters
    ----------
    path : object
        Where it lies, for the message.

    Raises
    ------
    DamagedArtifactError
        It is not what was written.
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DamagedArtifactError(f"The manifest {path} cannot be read: {error}.") from error
    try:
        sound = isinstance(body, dict) and manifest_bytes(body) == content
    except ValueError:
        sound = False
    if not sound:
        raise DamagedArtifactError(
            f"The manifest {path} is not what was written: its digest does not match. Restore "
            "it or train the model again."
        )
    if body.get("format_version") != FORMAT_VERSION or not isinstance(body.get("files"), dict):
        raise DamagedArtifactError(
            f"The manifest {path} has the format {body.get('format_version')!r}; this version "
            f"reads {FORMAT_VERSION}. Train the model again."
        )
    return dict(body)


def _compare(path: Path, entry: Mapping[str, Any]) -> str:
    """Say how a file differs from its entry; nothing when it does not."""
    try:
        size = path.stat().st_size
        return _wrong_size(size, entry) or difference(path.read_bytes(), entry)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def difference(content: bytes, entry: Mapping[str, Any]) -> str:
    """Say how the content of a file differs from its entry in a manifest; nothing if it does not.

    Examples
    --------
    >>> difference(b"{}", {"sha256": "", "size_bytes": 3})
    'it has 2 bytes instead of 3'
    """
    wrong = _wrong_size(len(content), entry)
    if wrong or hashlib.sha256(content).hexdigest() == entry["sha256"]:
        return wrong
    return "its SHA-256 does not match the manifest"


def _wrong_size(size: int, entry: Mapping[str, Any]) -> str:
    if size == entry["size_bytes"] and size <= _LARGEST_FILE_BYTES:
        return ""
    return f"it has {size} bytes instead of {entry['size_bytes']}"

"""Files of versions: whole or not there, whatever the disk does."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import made_up_versions
import pytest

from perfmodel.errors import (
    DamagedArtifactError,
    MissingExtraError,
    StoreError,
    UnknownModelVersionError,
)
from perfmodel.registry.file_store import FileStore, LocalFiles, open_store
from perfmodel.registry.version_files import VersionFiles
from perfmodel.store import durable

#: Two files and the manifest.
_WRITES = len(made_up_versions.FILES) + 1


class _Full:
    """A store that is full after some writes of files."""

    def __init__(self, files: FileStore, room: int) -> None:
        self._files = files
        self._room = room

    def write(self, path: str, content: bytes) -> None:
        self._room -= 1
        if self._room < 0:
            # What such a store shows of the file that did not fit.
            self._files.write(path, content[: len(content) // 2])
            raise StoreError(f"The store of models is full: {path}.")
        self._files.write(path, content)

    def write_folder(self, path: str, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            self.write(f"{path}/{name}", content)

    def remove_folder(self, path: str, first: str) -> None:
        raise StoreError("It cannot be tidied up either.")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


@pytest.mark.parametrize("room", range(_WRITES))
def test_no_half_version_is_seen_where_the_store_is_full(
    files: FileStore, tmp_path: Path, room: int
) -> None:
    folder = made_up_versions.version(tmp_path / "made", "1")
    with pytest.raises(StoreError, match="full"):
        VersionFiles(_Full(files, room)).publish(folder, "default", "1")
    found = VersionFiles(files)
    with pytest.raises((DamagedArtifactError, UnknownModelVersionError)):
        found.content("default", "1")
    # The next try takes a name of its own, and is whole.
    assert found.publish(folder, "default", "1") == "1.2"
    assert len(found.content("default", "1.2")) == _WRITES


@pytest.mark.parametrize("nth", range(_WRITES))
def test_a_full_disk_leaves_nothing_of_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    folder = made_up_versions.version(tmp_path / "made", "1")
    written = 0

    def sync(path: Path, flags: int) -> None:
        nonlocal written
        written += ".json" in path.name
        if written > nth:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(durable, "_sync", sync)
    store = LocalFiles(tmp_path / "store")
    with pytest.raises(StoreError, match="No space left"):
        VersionFiles(store).publish(folder, "default", "1")
    assert list((tmp_path / "store" / "default").iterdir()) == []


def test_a_copy_that_does_not_fit_is_not_there(
    files: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_up_versions.version(tmp_path / "made", "1")
    found = VersionFiles(files)
    found.publish(folder, "default", "1")

    def full(folder: Path, content: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("perfmodel.registry.version_files.write_whole_folder", full)
    with pytest.raises(StoreError, match="No space left"):
        found.fetch("default", "1", tmp_path / "cache")
    monkeypatch.undo()
    assert found.fetch("default", "1", tmp_path / "cache").is_dir()
    assert found.fetch("default", "1", tmp_path / "cache") == tmp_path / "cache" / "default" / "1"


def test_a_damaged_folder_is_not_published(files: FileStore, tmp_path: Path) -> None:
    folder = made_up_versions.version(tmp_path / "made", "1")
    (folder / "a.json").write_bytes(b"[]")
    with pytest.raises(DamagedArtifactError, match="a.json"):
        VersionFiles(files).publish(folder, "default", "1")
    assert VersionFiles(files).versions("default") == []


def test_a_manifest_leads_to_no_other_file(files: FileStore, tmp_path: Path) -> None:
    from perfmodel.store.artifacts import manifest_bytes

    files.write("secret.json", b"{}")
    entry = {"sha256": "0" * 64, "size_bytes": 2}
    manifest = {"format_version": 1, "files": {"../../secret.json": entry}}
    files.write_folder("default/1", {"manifest.json": manifest_bytes(manifest)})
    with pytest.raises(DamagedArtifactError, match="it is not there"):
        VersionFiles(files).content("default", "1")


def test_removing_twice_is_removing_once(files: FileStore, tmp_path: Path) -> None:
    found = VersionFiles(files)
    found.publish(made_up_versions.version(tmp_path / "made", "1"), "default", "1")
    found.remove("default", "1")
    found.remove("default", "1")
    assert found.versions("default") == [] and files.folders("nowhere") == []


def test_a_store_that_cannot_be_opened_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="nosuch"):
        open_store("nosuch://models")
    with pytest.raises(StoreError, match="its options"):
        open_store("memory://models", {"skip_instance_cache": False})
    with pytest.raises(StoreError) as told:
        open_store("nosuch://me:secret@host/models")
    assert "secret" not in told.value.message and "nosuch://host/models" in told.value.message
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match="remote"):
        open_store("memory://models")


def test_a_folder_that_is_none_says_so(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    store = open_store(tmp_path / "store")
    assert store.folders("") == [] and store.read("x") is None
    with pytest.raises(StoreError, match="cannot be used"):
        store.write("default/x", b"")

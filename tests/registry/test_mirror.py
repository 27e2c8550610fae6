"""A host follows a store elsewhere, and goes on without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import made_up_versions
import pytest
from webdav_server import WebdavStore, webdav_store

from perfmodel.errors import DamagedArtifactError, StoreError
from perfmodel.registry.file_store import FileStore, LocalFiles
from perfmodel.registry.mirror import ModelMirror, local_models, manifests_elsewhere
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.state_log import StateLog


@pytest.fixture
def registry(files: FileStore, tmp_path: Path) -> ModelRegistry:
    found = ModelRegistry(files, by="somebody")
    for number in "1234":
        found.publish(made_up_versions.version(tmp_path / "made", number), "default")
    return found


@pytest.fixture
def mirror(files: FileStore, tmp_path: Path) -> ModelMirror:
    return ModelMirror(files, tmp_path / "cache")


def _copied(mirror: ModelMirror) -> list[str]:
    return [name for name in LocalFiles(mirror.folder).folders("default") if name[0] != "_"]


def test_the_copy_holds_what_serves_and_every_change(
    registry: ModelRegistry, mirror: ModelMirror
) -> None:
    assert mirror.sync() == () and _copied(mirror) == []
    for number in "123":
        registry.promote("default", number)
    assert mirror.sync() == ()
    # What serves, and what does if that is damaged; of all others the manifests.
    assert _copied(mirror) == ["2", "3"]
    elsewhere = manifests_elsewhere(mirror.folder, "default")
    assert [one.folder.name for one in elsewhere] == ["4", "1"]
    here = StateLog(LocalFiles(mirror.folder), "default").history()
    assert here == registry.history("default") and here.serving == "3"
    mirror.fetch("default", "1")
    assert _copied(mirror) == ["1", "2", "3"]
    registry.promote("default", "4")
    registry.collect("default", keep=0)
    mirror.sync()
    # 1 and 2 were collected; 3 is what a rollback goes back to.
    assert _copied(mirror) == ["3", "4"]
    assert manifests_elsewhere(mirror.folder, "default") == []


def test_a_version_that_was_damaged_in_the_store_is_not_copied(
    registry: ModelRegistry, files: FileStore, tmp_path: Path
) -> None:
    now = [0.0]
    mirror = ModelMirror(files, tmp_path / "cache", clock=lambda: now[0])
    registry.promote("default", "1")
    registry.promote("default", "2")
    files.remove("default/2/a.json")
    (problem,) = mirror.sync()
    assert "default/2" in problem and _copied(mirror) == ["1"]
    files.write("default/2/a.json", made_up_versions.FILES["a.json"])
    # It is not fetched again and again.
    assert mirror.sync() == (problem,)
    now[0] = 61.0
    assert mirror.sync() == () and _copied(mirror) == ["1", "2"]


def test_a_torn_change_is_told_and_not_copied(
    registry: ModelRegistry, mirror: ModelMirror, files: FileStore
) -> None:
    registry.promote("default", "1")
    files.write(f"default/_states/0000000099-{'0' * 16}.json", b"{")
    (problem,) = mirror.sync()
    assert "0000000099" in problem
    assert StateLog(LocalFiles(mirror.folder), "default").history().serving == "1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WebdavStore]:
    with webdav_store(tmp_path / "webdav") as found:
        yield found


def test_without_the_store_the_copy_goes_on(store: WebdavStore, tmp_path: Path) -> None:
    files = store.open()
    registry = ModelRegistry(files)
    registry.publish(made_up_versions.version(tmp_path / "made", "1"), "default")
    registry.promote("default", "1")
    mirror = ModelMirror(files, tmp_path / "cache")
    mirror.sync()
    store.stop()
    with pytest.raises(StoreError, match="cannot be used"):
        mirror.sync()
    assert _copied(mirror) == ["1"]
    with pytest.raises(StoreError):
        registry.promote("default", "1")


def test_a_local_folder_is_its_own_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: FileStore, registry: ModelRegistry
) -> None:
    assert local_models(tmp_path) == tmp_path
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "c"))
    with pytest.raises(StoreError):
        local_models("nosuch://models")


def test_fetching_what_is_damaged_says_so(registry: ModelRegistry, mirror: ModelMirror) -> None:
    registry.files.remove("default/1/members/m/b.json")
    with pytest.raises(DamagedArtifactError, match="b.json"):
        mirror.fetch("default", "1")
    assert _copied(mirror) == []

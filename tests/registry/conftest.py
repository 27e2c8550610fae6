"""Stores of two kinds: a local folder, and a WebDAV server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from webdav_server import WebdavStore, webdav_store

from perfmodel.registry.file_store import FileStore, open_store


@pytest.fixture(scope="session")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebdavStore]:
    with webdav_store(tmp_path_factory.mktemp("webdav")) as server:
        yield server


@pytest.fixture(params=["folder", "webdav"])
def files_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Where a store of each kind keeps its files."""
    if request.param == "folder":
        return tmp_path / "store"
    server: WebdavStore = request.getfixturevalue("_server")
    return server.folder / "models" / tmp_path.name  # as its URL says


@pytest.fixture
def files(request: pytest.FixtureRequest, files_folder: Path, tmp_path: Path) -> FileStore:
    """An empty store of each kind."""
    if files_folder == tmp_path / "store":
        return open_store(files_folder)
    server: WebdavStore = request.getfixturevalue("_server")
    return server.open(files_folder.name)

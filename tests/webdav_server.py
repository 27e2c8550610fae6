"""A WebDAV server over a folder: a real store elsewhere, which cannot lock, append or rename.

Nothing of ours asks it to rename, and a file that is being written is seen half written.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfmodel.registry.file_store import RemoteFiles

#: No connection stays open, since nobody closes what a file system of ``fsspec`` holds.
_ONE_BY_ONE = {"Connection": "close"}


@dataclass(frozen=True, kw_only=True)
class WebdavStore:
    """A store that can be stopped.

    Parameters
    ----------
    folder : Path
        Where what is stored lies, for tests that damage it.
    """

    folder: Path
    options: dict[str, Any]
    server: Any
    url: str = "webdav://models"

    def stop(self) -> None:
        self.server.stop()

    def open(self, below: str = "") -> RemoteFiles:
        """Open the store, or a folder of it."""
        return RemoteFiles(f"{self.url}/{below}".rstrip("/"), self.options)


@contextmanager
def webdav_store(folder: Path) -> Iterator[WebdavStore]:
    pytest.importorskip("webdav4", reason="the file system of a WebDAV server is not installed")
    from cheroot import wsgi
    from wsgidav.wsgidav_app import WsgiDAVApp

    logging.getLogger("wsgidav").setLevel(logging.ERROR)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    app = WsgiDAVApp(
        {
            "provider_mapping": {"/": str(folder)},
            "simple_dc": {"user_mapping": {"*": True}},
            "logging": {"enable": False},
            "dir_browser": {"enable": False},
            "lock_storage": False,
            "property_manager": False,
        }
    )
    server = wsgi.Server(("127.0.0.1", 0), app, shutdown_timeout=0.1)
    server.prepare()
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    host, port = server.bind_addr
    try:
        options = {"base_url": f"http://{host}:{port}", "timeout": 5.0, "headers": _ONE_BY_ONE}
        yield WebdavStore(folder=folder, options=options, server=server)
    finally:
        server.stop()
        thread.join()

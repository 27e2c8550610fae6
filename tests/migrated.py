"""SQLite files of the newest schema, copied instead of migrated each time."""

from __future__ import annotations

import shutil
import tempfile
from functools import lru_cache
from pathlib import Path

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.migrate import migrate


def migrated_sqlite(folder: Path) -> str:
    """Return the URL of a database with empty tables, in a folder that may hold one already."""
    path = folder / "state.db"
    if not path.exists():
        path.write_bytes(_empty())
    return f"sqlite:///{path}"


@lru_cache
def _empty() -> bytes:
    folder = Path(tempfile.mkdtemp())
    connections = Connections(f"sqlite:///{folder}/state.db")
    migrate(connections)
    connections.close()
    content = (folder / "state.db").read_bytes()
    shutil.rmtree(folder)
    return content

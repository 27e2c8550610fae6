"""Files that are either there in full or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a path to write to; the file appears under its name once it is safely on disk.

    Write, fsync, rename, fsync of the folder: after a crash at any moment the file is complete or
    absent, never torn.

    Parameters
    ----------
    path : Path
        Where the file shall be; its folder is made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        _sync(temporary, os.O_RDWR)
        temporary.replace(path)
        _sync(path.parent, os.O_RDONLY)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write bytes as :func:`whole_file` does."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Files that are either there in full or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from perfmodel.errors import StoreError


@contextmanager
def records_in(folder: Path | str) -> Iterator[None]:
    """Say of a folder of records why it cannot be written.

    Raises
    ------
    StoreError
        The disk is full or fails, or the folder is another's.
    """
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written: {error.strerror or error}. Free some space or give "
            "another --out, and start again: nothing finished is lost."
        ) from error


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


def write_whole_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder that appears under its name with all its files, or not at all.

    Parameters
    ----------
    folder : Path
        Must not exist, or be empty.
    files : mapping of str to bytes
        By their paths in the folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        for path, content in files.items():
            write_whole(partial / path, content)
        partial.chmod(0o755)
        os.rename(partial, folder)
        _sync(folder.parent, os.O_RDONLY)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_whole_folder(folder: Path) -> None:
    """Remove a folder that disappears in one go, whenever the rest of the work ends."""
    doomed = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        os.rename(folder, doomed / folder.name)
        _sync(folder.parent, os.O_RDONLY)
    finally:
        shutil.rmtree(doomed, ignore_errors=True)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

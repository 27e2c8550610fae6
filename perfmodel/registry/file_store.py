"""Where versions lie: a local folder, or any file system that ``fsspec`` reaches.

What stands above asks for little, so that object stores do: files that are written once, in any
order that is asked for, lists that hold what was written, and no renaming, locking or appending.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from perfmodel.errors import MissingExtraError, StoreError
from perfmodel.store.durable import remove_whole_folder, write_whole, write_whole_folder


class FileStore(Protocol):
    """Files by their paths below one place.

    Every method raises :class:`~perfmodel.errors.StoreError` where the place cannot be reached,
    read or written; what is not there is no error.
    """

    @property
    def place(self) -> str:
        """Where it is, as it may be shown."""

    def folders(self, path: str) -> list[str]:
        """Return the names of the folders in a folder."""

    def files(self, path: str) -> list[str]:
        """Return the names of the files in a folder."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None where there is none."""

    def write(self, path: str, content: bytes) -> None:
        """Write a file that was never there."""

    def write_folder(self, path: str, files: Mapping[str, bytes]) -> None:
        """Write the files of a folder that was never there, the last one when the others are."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_folder(self, path: str, first: str) -> None:
        """Remove a folder, one of its files before the others."""


def is_url(location: str | Path) -> bool:
    """Tell whether a location is a URL, and not a local folder.

    Examples
    --------
    >>> is_url("s3://bucket/models"), is_url("/srv/models")
    (True, False)
    """
    return "://" in str(location)


def open_store(location: str | Path, options: Mapping[str, Any] | None = None) -> FileStore:
    """Open the store at a folder or a URL; nothing is read yet.

    Parameters
    ----------
    options : mapping or None
        What the file system of a URL takes besides: credentials, an endpoint, a timeout.

    Raises
    ------
    MissingExtraError
        A URL, and no fsspec or no library for its scheme.
    StoreError
        The URL or the options are not what its file system takes.
    """
    if is_url(location):
        return RemoteFiles(str(location), options or {})
    return LocalFiles(Path(location))


class LocalFiles:
    """A local folder; every file and folder appears in full or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def place(self) -> str:
        """Where it is."""
        return str(self.folder)

    def folders(self, path: str) -> list[str]:
        """Return the names of the folders in a folder; hidden ones are not there yet."""
        return self._names(path, folders=True)

    def files(self, path: str) -> list[str]:
        """Return the names of the files in a folder."""
        return self._names(path, folders=False)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None where there is none."""
        with self._translated():
            try:
                return (self.folder / path).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def write(self, path: str, content: bytes) -> None:
        """Write a file."""
        with self._translated():
            write_whole(self.folder / path, content)

    def write_folder(self, path: str, files: Mapping[str, bytes]) -> None:
        """Write a folder that appears in one go."""
        with self._translated():
            write_whole_folder(self.folder / path, files)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with self._translated():
            (self.folder / path).unlink(missing_ok=True)

    def remove_folder(self, path: str, first: str) -> None:
        """Remove a folder in one go."""
        with self._translated():
            if (self.folder / path).is_dir():
                remove_whole_folder(self.folder / path)

    def _names(self, path: str, *, folders: bool) -> list[str]:
        with self._translated():
            try:
                found = list((self.folder / path).iterdir())
            except (FileNotFoundError, NotADirectoryError):
                return []
            return sorted(
                one.name for one in found if one.is_dir() == folders and one.name[0] != "."
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"The store of models {self.folder} cannot be used: {error}. Check its permissions "
                "and the free space."
            ) from error


class RemoteFiles:
    """A file system of ``fsspec``; a file may be seen half written, as some show it."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = without_credentials(url)
        try:
            from fsspec import url_to_fs
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"The store of models {self.url}", extra="remote") from error
        try:
            self._system, self._root = url_to_fs(url, skip_instance_cache=True, **options)
        except Exception as error:  # each file system has errors of its own
            raise StoreError(
                f"The store of models {self.url} cannot be opened: {_said(error)}. Check the URL "
                "and its options; each scheme has a library of its own, which fsspec names."
            ) from error

    @property
    def place(self) -> str:
        """The URL, without credentials."""
        return self.url

    def folders(self, path: str) -> list[str]:
        """Return the names of the folders in a folder."""
        return self._names(path, "directory")

    def files(self, path: str) -> list[str]:
        """Return the names of the files in a folder."""
        return self._names(path, "file")

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None where there is none."""
        with self._translated():
            try:
                return bytes(self._system.cat_file(self._at(path)))
            except FileNotFoundError:
                return None

    def write(self, path: str, content: bytes) -> None:
        """Write a file."""
        with self._translated():
            place = self._at(path)
            self._system.makedirs(place.rpartition("/")[0], exist_ok=True)
            self._system.pipe_file(place, content)

    def write_folder(self, path: str, files: Mapping[str, bytes]) -> None:
        """Write files in their order."""
        for name, content in files.items():
            self.write(f"{path}/{name}", content)

    def remove(self, path: str) -> None:
        """Remove a file."""
        self._remove(path, recursive=False)

    def remove_folder(self, path: str, first: str) -> None:
        """Remove one file, then what is left."""
        self._remove(f"{path}/{first}", recursive=False)
        self._remove(path, recursive=True)

    def _remove(self, path: str, *, recursive: bool) -> None:
        with self._translated(), suppress(FileNotFoundError):
            self._system.rm(self._at(path), recursive=recursive)

    def _at(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}".strip("/") if path else self._root

    def _names(self, path: str, kind: str) -> list[str]:
        with self._translated():
            self._system.invalidate_cache()  # others write as well
            try:
                found = self._system.ls(self._at(path), detail=True)
            except FileNotFoundError:
                return []
            return sorted(
                one["name"].rstrip("/").rpartition("/")[2] for one in found if one["type"] == kind
            )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # each file system has errors of its own
            raise StoreError(
                f"The store of models {self.url} cannot be used: {_said(error)}. Check that it is "
                "up, and the credentials among its options."
            ) from error


def without_credentials(text: str) -> str:
    """Leave out of URLs who may use them.

    Examples
    --------
    >>> without_credentials("sftp://me:secret@host/models")
    'sftp://host/models'
    """
    return re.sub(r"://[^/@\s]*@", "://", text)


def _said(error: Exception) -> str:
    return without_credentials(f"{type(error).__name__}: {error}".rstrip(": ").rstrip("."))

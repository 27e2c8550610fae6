"""Kept sketches: one compressed file of arrays under each key, made again when damaged.

A cache, not a store of record: files appear whole under their name, but nothing waits for the
disk, and a file that a crash tore is found by its checksums, removed and made again.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import StoreError


class SketchFiles:
    """Arrays by key below one folder: ``<folder>/<first two characters>/<key>.npz``.

    Parameters
    ----------
    folder : Path
        Made when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, key: str) -> Path:
        """Return where the file of a key lies."""
        return self.folder / key[:2] / f"{key}.npz"

    def read(self, key: str) -> dict[str, Any] | None:
        """Return the arrays of a key; None where there is no file or a damaged one.

        A damaged file is removed.
        """
        path = self.path(key)
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except FileNotFoundError:
            return None
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error):
            self.remove(key)
            return None

    def write(self, key: str, arrays: Mapping[str, Any]) -> None:
        """Keep arrays under a key; another process sees all of them or none.

        Raises
        ------
        StoreError
            The folder cannot be written to.
        """
        self.keep(key, packed(arrays))

    def keep(self, key: str, content: bytes) -> None:
        """Keep what :func:`packed` returned under a key, as :meth:`write` does."""
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".npz")
        except OSError as error:
            raise StoreError(f"Cannot keep sketches in {self.folder}: {error}.") from error
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            os.replace(name, path)
        except OSError as error:
            raise StoreError(f"Cannot keep a sketch in {self.folder}: {error}.") from error
        finally:
            Path(name).unlink(missing_ok=True)

    def remove(self, key: str) -> None:
        """Forget a key; nothing happens where it is not kept."""
        self.path(key).unlink(missing_ok=True)


def packed(arrays: Mapping[str, Any]) -> bytes:
    """Return the content of a file that holds arrays."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()

"""Notice that something changed in the folder of trained models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: Deeper than any file of a model lies.
_DEPTH = 5

Signature = tuple[tuple[str, int, int], ...]


class ModelFolder:
    """A folder of trained models that is looked at from time to time.

    Parameters
    ----------
    path : Path
        Holds ``<name>/<version>/``; may be missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = _signature(path)

    def has_changed(self) -> bool:
        """Tell whether anything was added, written or removed since it was asked last."""
        before, self._seen = self._seen, _signature(self.path)
        return before != self._seen


def _signature(path: Path) -> Signature:
    """Return name, size and time of every file; whatever is not readable is not there."""
    return tuple(sorted(_files(str(path), _DEPTH)))


def _files(folder: str, depth: int) -> Iterator[tuple[str, int, int]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=True):
                    if depth and not entry.name.startswith("."):
                        yield from _files(entry.path, depth - 1)
                else:
                    facts = entry.stat()
                    yield entry.path, facts.st_size, facts.st_mtime_ns
    except OSError:
        return

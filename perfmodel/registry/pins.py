"""Which versions questions were pinned to lately: one empty note a version and day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from perfmodel.registry.file_store import FileStore

#: The folder of a model that holds the notes; no version can be called so.
PINS = "_pins"


def utc_today() -> date:
    """Return the day in UTC."""
    return datetime.now(UTC).date()


class PinNotes:
    """Notes of pins in a store, which all hosts write and whoever collects reads.

    Days come from the clocks of hosts. A note of the future counts as one of today; a collector
    whose clock is ahead takes notes for older than they are.
    """

    def __init__(self, files: FileStore, *, today: Callable[[], date] = utc_today) -> None:
        self._files = files
        self._today = today
        self._noted: set[str] = set()

    def note(self, name: str, version: str) -> None:
        """Note that a version was pinned today; only the first time a day touches the store.

        Raises
        ------
        StoreError
            The store cannot be written; it is tried again the next time.
        """
        path = f"{name}/{PINS}/{self._today().isoformat()}.{version}"
        if path not in self._noted:
            self._files.write(path, b"")
            self._noted.add(path)

    def is_noted(self, name: str, version: str) -> bool:
        """Tell whether this process noted it today; asks nobody."""
        return f"{name}/{PINS}/{self._today().isoformat()}.{version}" in self._noted

    def since(self, name: str, days: float) -> set[str]:
        """Return the versions that were pinned within some days; older notes are removed."""
        oldest = (self._today() - timedelta(days=days)).isoformat()
        found = set()
        for note in self._files.files(f"{name}/{PINS}"):
            day, _, version = note.partition(".")
            if day >= oldest:
                found.add(version)
            else:
                self._files.remove(f"{name}/{PINS}/{note}")
        return found

"""The changes of state of one model: files that are added and never changed."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from perfmodel.errors import DamagedArtifactError
from perfmodel.registry.file_store import FileStore
from perfmodel.registry.states import Change, History, State, fold

#: The folder of a model that holds them; no version can be called so.
STATES = "_states"


def utc_now() -> str:
    """Return the time as changes tell it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class StateLog:
    """Reads and adds changes; several hosts may at once.

    What was read is remembered, since it never changes: to look again costs one list.
    """

    def __init__(self, files: FileStore, name: str) -> None:
        self._files = files
        self._folder = f"{name}/{STATES}"
        self._known: dict[str, Change] = {}

    def history(self) -> History:
        """Return what became of the versions, as of now.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        listed = self._files.files(self._folder)
        damaged = []
        for file_name in listed:
            if file_name not in self._known:
                content = self._files.read(f"{self._folder}/{file_name}")
                try:
                    self._known[file_name] = Change.from_bytes(content or b"", file_name)
                except DamagedArtifactError as error:
                    # It may be on its way: some stores show what is half written.
                    damaged.append(error.message)
        return fold((self._known[one] for one in listed if one in self._known), damaged)

    def append(
        self,
        version: str,
        state: State,
        *,
        action: str,
        by: str,
        why: str = "",
        previous: str | None = None,
    ) -> Change:
        """Add a change; when this returns it is in the store.

        Raises
        ------
        StoreError
            The store cannot be written; the change may or may not have been made.
        """
        change = Change(
            sequence=1
            + max((_sequence(one) for one in self._files.files(self._folder)), default=0),
            change_id=secrets.token_hex(8),
            version=version,
            state=state,
            action=action,
            by=by,
            at=utc_now(),
            why=why,
            previous=previous,
        )
        self._files.write(f"{self._folder}/{change.file_name}", change.to_bytes())
        return change


def _sequence(file_name: str) -> int:
    number = file_name.partition("-")[0]
    return int(number) if number.isdecimal() else 0

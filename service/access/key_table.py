"""Keys in the database, for all hosts that share it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from perfmodel.errors import InvalidInputError
from perfmodel.store.sql.connections import Connections, shown_url
from perfmodel.store.sql.shared_store import RevisionWatch
from perfmodel.store.state.keys import REVISION, KeyRows
from service.access.keys import ApiKey, KeyStore, UnknownKeyError, parse_scopes

logger = logging.getLogger(__name__)


class KeyTable:
    """Keeps keys in a database, with a copy in memory from which requests are judged.

    What another host adds or revokes holds here after the next look at the counters of changes.
    While the database is away the keys that were read before go on: nobody new comes in, nobody is
    locked out.

    Parameters
    ----------
    watch : RevisionWatch or None
        Tells of changes by others, and is started; None: nobody does.
    """

    def __init__(self, connections: Connections, watch: RevisionWatch | None = None) -> None:
        self.place = f"the database {shown_url(connections.url)}"
        self._rows = KeyRows(connections)
        self._keys: tuple[ApiKey, ...] = ()
        self._valid: Mapping[str, ApiKey] = {}
        self.refresh()
        if watch is not None:
            watch.on_change(REVISION, self.refresh)
            # However this is served: a key that was revoked must not live on.
            watch.start()

    def find(self, digest: str) -> ApiKey | None:
        """Return the key with a digest that is not revoked, or None."""
        return self._valid.get(digest)

    def all(self) -> Sequence[ApiKey]:
        """Return every key, the oldest first, revoked ones included."""
        return self._keys

    def add(self, key: ApiKey) -> None:
        """Keep a key; it is safe on disk when this returns."""
        self._rows.add({**asdict(key), "scopes": sorted(key.scopes)})
        self.refresh()

    def revoke(self, key_id: str) -> ApiKey:
        """Make a key worthless; one that is so already stays as it is."""
        was_there = self._rows.revoke(key_id, datetime.now(UTC).isoformat(timespec="seconds"))
        self.refresh()
        if not was_there:
            raise UnknownKeyError(key_id, known=[key.key_id for key in self._keys])
        return next(key for key in self._keys if key.key_id == key_id)

    def refresh(self) -> None:
        """Read the keys again."""
        keys = []
        for row in self._rows.all():
            try:
                keys.append(ApiKey(**{**row, "scopes": parse_scopes(row["scopes"])}))
            except InvalidInputError as error:
                # Of a newer version, perhaps: what is not understood opens nothing.
                logger.error("the key %s is passed over: %s", row["key_id"], error)
        self._keys = tuple(keys)
        self._valid = {key.digest: key for key in keys if key.revoked_at is None}


class KeyRing:
    """Keys in several places; new ones go into the first."""

    def __init__(self, *places: KeyStore) -> None:
        self._places = places

    def find(self, digest: str) -> ApiKey | None:
        """Return the key with a digest that is not revoked, or None."""
        for place in self._places:
            found = place.find(digest)
            if found is not None:
                return found
        return None

    def all(self) -> Sequence[ApiKey]:
        """Return every key of every place."""
        return [key for place in self._places for key in place.all()]

    def add(self, key: ApiKey) -> None:
        """Keep a key in the first place."""
        self._places[0].add(key)

    def revoke(self, key_id: str) -> ApiKey:
        """Make a key worthless wherever it is."""
        for place in self._places:
            if any(key.key_id == key_id for key in place.all()):
                return place.revoke(key_id)
        raise UnknownKeyError(key_id, known=[key.key_id for key in self.all()])

"""Keys in one JSON file beside the state; any number of processes may read and edit it."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from perfmodel.errors import PerfModelError, StoreError
from perfmodel.store.durable import write_whole
from service.access.keys import ApiKey, UnknownKeyError, parse_scopes

logger = logging.getLogger(__name__)

#: Seconds for which a file that was looked at is not looked at again.
FRESH_S = 1.0


class KeyFile:
    """Keeps keys in a file, written whole or not at all.

    A running service sees an edit of another process within :data:`FRESH_S`. A file that became
    unreadable while the service runs leaves the keys that were read before: nobody new comes in,
    nobody is locked out. The file holds hashes of random secrets and names; it may be read by
    whoever may read the state.

    Parameters
    ----------
    path : path
        Need not exist; then there are no keys.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = Path(path)
        self.place = str(self.path)
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at: float | None = None
        self._was_read = False
        self._state: tuple[int, int, int] | None = None
        self._keys: tuple[ApiKey, ...] = ()
        self._valid: Mapping[str, ApiKey] = {}

    def find(self, digest: str) -> ApiKey | None:
        """Return the key with a digest that is not revoked, or None."""
        self.all()
        return self._valid.get(digest)

    def all(self) -> Sequence[ApiKey]:
        """Return every key, the oldest first, revoked ones included.

        The file is read again if it changed; whether it did is looked at once in :data:`FRESH_S`.
        """
        now = self._clock()
        if self._looked_at is not None and now - self._looked_at < FRESH_S:
            return self._keys
        with self._lock:
            try:
                state = _state_of(self.path)
                if state is None and self._state is not None:
                    raise StoreError(f"{self.path} with the keys is gone.")
                if state != self._state:
                    self._take(_read(self.path))
                    self._state = state
                self._was_read = True
            except StoreError as error:
                if not self._was_read:
                    raise
                logger.error("%s The keys that were read before go on.", error.message)
            self._looked_at = now
            return self._keys

    def add(self, key: ApiKey) -> None:
        """Keep a key; it is safe on disk when this returns."""
        with self._editing() as keys:
            keys.append(key)

    def revoke(self, key_id: str) -> ApiKey:
        """Make a key worthless; one that is so already stays as it is."""
        with self._editing() as keys:
            for position, key in enumerate(keys):
                if key.key_id == key_id:
                    revoked_at = key.revoked_at or datetime.now(UTC).isoformat(timespec="seconds")
                    keys[position] = replace(key, revoked_at=revoked_at)
                    return keys[position]
            raise UnknownKeyError(key_id, known=[key.key_id for key in keys])

    def _take(self, keys: Sequence[ApiKey]) -> None:
        self._keys = tuple(keys)
        self._valid = {key.digest: key for key in keys if key.revoked_at is None}

    @contextmanager
    def _editing(self) -> Iterator[list[ApiKey]]:
        """Give the keys to be changed; what stands at the end is written."""
        lock = self.path.with_name(f".{self.path.name}.lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            with lock.open("a") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                keys = list(_read(self.path))
                yield keys
                write_whole(self.path, orjson.dumps(_content(keys), option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise StoreError(f"The keys in {self.path} cannot be changed: {error}.") from error
        with self._lock:
            self._take(keys)
            self._state = _state_of(self.path)
            self._was_read = True


def _state_of(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is replaced; None if there is none."""
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"The keys in {path} cannot be read: {error}.") from error
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _content(keys: Sequence[ApiKey]) -> dict[str, Any]:
    listed = [
        {
            "id": key.key_id,
            "name": key.name,
            "sha256": key.digest,
            "scopes": sorted(key.scopes),
            "rate_per_s": key.rate_per_s,
            "created_at": key.created_at,
            "revoked_at": key.revoked_at,
        }
        for key in keys
    ]
    return {"format": 1, "keys": listed}


def _read(path: Path) -> tuple[ApiKey, ...]:
    try:
        content = orjson.loads(path.read_bytes())
        if content["format"] != 1:
            raise ValueError(f"format {content['format']!r} is not read by this version")
        return tuple(_key(item) for item in content["keys"])
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PerfModelError) as error:
        raise StoreError(f"The keys in {path} cannot be read: {error!r}.") from error


def _key(item: Mapping[str, Any]) -> ApiKey:
    rate = item["rate_per_s"]
    return ApiKey(
        key_id=str(item["id"]),
        name=str(item["name"]),
        digest=str(item["sha256"]),
        scopes=parse_scopes(item["scopes"]),
        rate_per_s=None if rate is None else float(rate),
        created_at=str(item["created_at"]),
        revoked_at=item["revoked_at"],
    )

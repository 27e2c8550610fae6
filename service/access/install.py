"""Build what guards an application from its settings."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from sqlalchemy.engine import make_url

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.revisions import RevisionWatch
from service.access.audit import AuditLog, AuditTable
from service.access.key_file import KeyFile
from service.access.key_table import KeyRing, KeyTable
from service.access.keys import KeyStore
from service.access.middleware import Access
from service.access.policy import Policy
from service.access.rate_limit import RateLimiter
from service.settings import Settings
from service.state import State


def install(app: FastAPI, settings: Settings, state: State) -> None:
    """Put a guard before every route of an app.

    Parameters
    ----------
    state : State
        Where it is shared by hosts, keys and audit log are in its database.

    Raises
    ------
    StoreError
        The keys cannot be read: no service is better than one that lets everybody in.
    """
    keys = keys_of(settings, state.database.connections, state.watch)
    keys.all()
    policy = Policy(
        keys=keys,
        limiter=RateLimiter(rate_per_s=settings.rate_per_s, burst_s=settings.burst_s),
        required=settings.require_keys,
        insecure=settings.insecure,
        open_paths=frozenset(settings.open_paths),
    )
    app.state.keys = keys
    app.add_middleware(Access, policy=policy, audit=audit_of(settings, state.database.connections))


def keys_of(
    settings: Settings, connections: Connections, watch: RevisionWatch | None = None
) -> KeyStore:
    """Return the keys that a service with some settings goes by.

    A database that hosts may share holds keys for all of them; those of the file count beside.

    Raises
    ------
    StoreError
        The keys in the database cannot be read.
    """
    file = KeyFile(keys_file(settings))
    return file if connections.is_sqlite else KeyRing(KeyTable(connections, watch), file)


def audit_of(settings: Settings, connections: Connections) -> AuditLog | AuditTable:
    """Return where a service with some settings notes what administrators do."""
    file = AuditLog(audit_file(settings))
    return file if connections.is_sqlite else AuditTable(connections, file)


def is_shared(database: str) -> bool:
    """Tell whether a database is of a kind that several hosts may share.

    Examples
    --------
    >>> is_shared("postgresql://host/perfmodel"), is_shared("sqlite:///perfmodel.db")
    (True, False)
    """
    return "://" in database and make_url(database).get_backend_name() != "sqlite"


def state_folder(database: str) -> Path:
    """Return the folder of an SQLite file; the current one for any other database."""
    if "://" not in database:
        return Path(database).parent
    url = make_url(database)
    if url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:"):
        return Path(str(url.database)).parent
    return Path()


def keys_file(settings: Settings) -> Path:
    """Return the file of the keys: the one that is set, else ``keys.json`` beside the state."""
    return settings.keys or state_folder(settings.database) / "keys.json"


def audit_file(settings: Settings) -> Path:
    """Return the audit log: the one that is set, else ``audit.jsonl`` beside the keys."""
    return settings.audit or keys_file(settings).with_name("audit.jsonl")

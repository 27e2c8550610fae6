"""Build what guards an application from its settings, and refuse to listen without it."""

from __future__ import annotations

import ipaddress
import socket
from pathlib import Path

from fastapi import FastAPI
from sqlalchemy.engine import make_url

from perfmodel.errors import InvalidInputError
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.shared_store import RevisionWatch
from service.access.access_policy import Access, Policy, RateLimiter
from service.access.audit import AuditLog, AuditTable
from service.access.key_file import KeyFile
from service.access.key_table import KeyRing, KeyTable
from service.access.keys import KeyStore
from service.settings import Settings


def install(
    app: FastAPI, settings: Settings, connections: Connections, watch: RevisionWatch
) -> None:
    """Put a guard before every route of an app.

    Parameters
    ----------
    connections : Connections
        Of the state; where hosts share it, it holds keys and audit log as well.

    Raises
    ------
    StoreError
        The keys cannot be read: no service is better than one that lets everybody in.
    """
    keys = keys_of(settings, connections, watch)
    keys.all()
    policy = Policy(
        keys=keys,
        limiter=RateLimiter(rate_per_s=settings.rate_per_s, burst_s=settings.burst_s),
        required=settings.require_keys,
        insecure=settings.insecure,
        open_paths=frozenset(settings.open_paths),
        hosts=frozenset(name.lower() for name in settings.hosts),
    )
    app.state.keys = keys
    app.add_middleware(Access, policy=policy, audit=audit_of(settings, connections))


def keys_of(
    settings: Settings, connections: Connections, watch: RevisionWatch | None = None
) -> KeyStore:
    """Return the keys that a service with some settings goes by.

    A database that hosts may share holds keys for all of them; those of the file count beside.
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


def check_binding(host: str, keys: KeyStore, *, insecure: bool = False) -> None:
    """Refuse an address beyond the loopback while there is no key.

    Raises
    ------
    InvalidInputError
        What to do about it.

    Examples
    --------
    >>> from service.access.key_file import KeyFile
    >>> check_binding("127.0.0.1", KeyFile("/nowhere/keys.json"))
    """
    if insecure or is_loopback(host) or any(key.revoked_at is None for key in keys.all()):
        return
    raise InvalidInputError(
        f"Listening on {host} would let anybody in: there are no keys. Make one with "
        "`perfmodel keys create NAME --scope predict`, listen on 127.0.0.1, or say --insecure."
    )


def is_loopback(host: str) -> bool:
    """Tell whether every address that a name stands for is on the loopback."""
    try:
        found = socket.getaddrinfo(
            host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        # Nobody can listen there; the server says so.
        return False
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)

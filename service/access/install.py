"""Build what guards an application from its settings."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from sqlalchemy.engine import make_url

from service.access.audit import AuditLog
from service.access.key_file import KeyFile
from service.access.keys import KeyStore
from service.access.middleware import Access
from service.access.policy import Policy
from service.access.rate_limit import RateLimiter
from service.settings import Settings


def install(app: FastAPI, settings: Settings, keys: KeyStore | None = None) -> None:
    """Put a guard before every route of an app.

    Parameters
    ----------
    app : FastAPI
    settings : Settings
    keys : KeyStore or None
        None: the file that the settings name.

    Raises
    ------
    StoreError
        The keys cannot be read: no service is better than one that lets everybody in.
    """
    keys = keys or KeyFile(keys_file(settings))
    keys.all()
    policy = Policy(
        keys=keys,
        limiter=RateLimiter(rate_per_s=settings.rate_per_s, burst_s=settings.burst_s),
        required=settings.require_keys,
        insecure=settings.insecure,
        open_paths=frozenset(settings.open_paths),
    )
    app.state.keys = keys
    app.add_middleware(Access, policy=policy, audit=AuditLog(audit_file(settings)))


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

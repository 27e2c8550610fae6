"""Whose request it is, as the guard before the routes found out."""

from __future__ import annotations

from fastapi import Request

from service.access.keys import KeyStore
from service.access.scopes import Scope

#: Who asks while there are no keys.
GUEST = "guest"


def caller_of(request: Request) -> str:
    """Return the identifier of the key that was shown; :data:`GUEST` of somebody without one."""
    return str(request.scope.get("caller") or GUEST)


def is_administrator(request: Request) -> bool:
    """Tell whether everything may be done: by a key of that scope, or because there are no keys.

    Who comes in by an open path is nobody in particular, whatever key is shown.
    """
    caller = request.scope.get("caller", "")
    if caller == GUEST:
        return True
    keys: KeyStore = request.app.state.keys
    return any(key.key_id == caller and key.allows(Scope.ADMIN) for key in keys.all())


def owner_shown(request: Request) -> str | None:
    """Return whose things alone a caller is shown; None for an administrator, who sees all."""
    return None if is_administrator(request) else caller_of(request)

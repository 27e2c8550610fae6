"""Let a version answer beside the one that serves."""

from __future__ import annotations

from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import Change, State
from perfmodel.store.shadow.shadow_runs import ShadowRunStore
from perfmodel.store.sql.connections import Connections


def begin_shadow(
    registry: ModelRegistry, connections: Connections, name: str, version: str, *, why: str = ""
) -> Change:
    """Let a version be a shadow; one that is already is compared again if that had failed.

    Parameters
    ----------
    connections : Connections
        To the database of the service, which compares.

    Returns
    -------
    Change
        By which it became one.

    Raises
    ------
    InvalidInputError
        It serves.
    OvertakenError
        Somebody let it serve meanwhile.
    """
    history = registry.history(name)
    if history.states.get(version) is State.SHADOW:
        change = next(one for one in reversed(history.changes) if one.version == version)
    else:
        change = registry.judge(name, version, State.SHADOW, why=why)
    ShadowRunStore(connections).begin_anew(f"{name}/{version}")
    return change

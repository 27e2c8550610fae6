"""Which versions may be deleted."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from perfmodel.registry.states import History, State


def collectable(
    history: History, versions: Sequence[str], *, keep: int, pinned: Collection[str] = ()
) -> list[str]:
    """Return the retired versions that nobody needs, newest first.

    Parameters
    ----------
    versions : sequence of str
        Those that are there, the newest first.
    keep : int
        Retired versions that stay whatever else holds, the newest.
    pinned : collection of str
        Versions that were asked for lately.

    Examples
    --------
    Nothing was said of any: 4 serves, a rollback would go back to 3.

    >>> collectable(History(states={}), ["4", "3", "2", "1"], keep=0, pinned=["1"])
    ['2']
    """
    serving = next(iter(history.may_serve(versions)), None)
    if serving is None:
        return []
    # What is newer than the one that serves may be wanted again.
    older = versions[versions.index(serving) + 1 :]
    retired = [one for one in older if history.state_of(one, versions) is State.RETIRED]
    needed = {*pinned, *history.before(versions)[:1]}
    return [one for one in retired[keep:] if one not in needed]

"""States of the versions of one model, folded from changes that many hosts may write at once.

A change says that one version enters one state. Its ``sequence`` is one more than that of every
change its writer had seen, so that what was done with knowledge of something comes after it,
whatever clocks say; among changes that knew nothing of each other the identifier decides. Every
host that holds the same changes folds them into the same states, in whatever order they came.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from perfmodel.client.records import ModelChange
from perfmodel.errors import DamagedArtifactError


class State(StrEnum):
    """What a version is for."""

    CANDIDATE = "candidate"
    """It waits for a judgement, or for somebody who lets it serve."""
    SHADOW = "shadow"
    """It answers beside the one that serves, and nobody is told."""
    SERVING = "serving"
    """It answers."""
    RETIRED = "retired"
    """It served, and another does now."""
    REFUSED = "refused"
    """It was judged and shall not serve."""
    DELETED = "deleted"
    """Its files are being removed, or are gone."""


#: Action of a change that lets the version serve that did before.
ROLLBACK = "rollback"
PROMOTE = "promote"
PUBLISH = "publish"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change(ModelChange):
    """One version enters one state; clocks are shown, never compared.

    Where the version that serves is asked for again, ``previous`` is that one, and nothing is
    written.
    """

    state: State

    @property
    def is_standing(self) -> bool:
        """Whether it stood before it was asked for, so that nothing was written."""
        return self.previous == self.version

    @property
    def file_name(self) -> str:
        """Name of its file; names are in the order of changes."""
        return f"{self.sequence:010d}-{self.change_id}.json"

    def to_bytes(self) -> bytes:
        """Write it, with a digest by which a torn or damaged copy is known."""
        plain = json.dumps(asdict(self), sort_keys=True)
        digest = hashlib.sha256(plain.encode()).hexdigest()
        return (json.dumps({**asdict(self), "digest": digest}, sort_keys=True) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes, file_name: str) -> Change:
        """Read what :meth:`to_bytes` wrote.

        Raises
        ------
        DamagedArtifactError
            It is something else.
        """
        try:
            body = json.loads(content)
            known = {one.name for one in fields(cls)}
            change = cls(**{k: v for k, v in body.items() if k in known})
            change = _with_state(change)
            sound = change.to_bytes() == content and change.file_name == file_name
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise _damaged(file_name) from error
        if not sound:
            raise _damaged(file_name)
        return change


def _with_state(change: Change) -> Change:
    values: dict[str, Any] = {**asdict(change), "state": State(change.state)}
    return Change(**values)


def _damaged(file_name: str) -> DamagedArtifactError:
    return DamagedArtifactError(
        f"The change {file_name} is not what was written; it does not count. Restore it, or make "
        "the change again."
    )


@dataclass(frozen=True, kw_only=True)
class History:
    """What became of the versions of one model.

    Parameters
    ----------
    changes : tuple of Change
        In their order.
    states : mapping of str to State
        Of every version that a change speaks of.
    served : tuple of str
        Versions to go back to, and at the end the one that serves; empty as long as none was
        ever promoted.
    refusals : mapping of str to Change
        Of versions that were refused and did not serve since, whatever else they are by now.
    damaged : tuple of str
        What is wrong with changes that do not count.
    """

    changes: tuple[Change, ...] = ()
    states: Mapping[str, State]
    served: tuple[str, ...] = ()
    refusals: Mapping[str, Change] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()

    @property
    def serving(self) -> str | None:
        """The version that was promoted last; None as long as none was."""
        return self.served[-1] if self.served else None

    def may_serve(self, versions: Sequence[str]) -> list[str]:
        """Return which versions may answer, the best first.

        Once one was promoted: that one, and those before it in case it is damaged. Until then
        every version that no change speaks of, as they come.

        Parameters
        ----------
        versions : sequence of str
            Those that are there, the newest first.
        """
        if self.served:
            return [version for version in reversed(self.served) if version in versions]
        return [version for version in versions if version not in self.states]

    def before(self, versions: Sequence[str]) -> list[str]:
        """Return which versions a rollback may go back to, the nearest first.

        Those that served before the one that does; then older ones that no change speaks of, as
        they did before changes were kept.

        Parameters
        ----------
        versions : sequence of str
            Those that are there, the newest first.
        """
        serving = next(iter(self.may_serve(versions)), None)
        older = versions[versions.index(serving) + 1 :] if serving in versions else ()
        known = [version for version in reversed(self.served[:-1]) if version in versions]
        return [*known, *(one for one in older if one not in self.states and one not in known)]

    def state_of(self, version: str, versions: Sequence[str]) -> State:
        """Return the state of a version, stated or not.

        Without a change that speaks of it a version serves, is retired or is a candidate by
        whether it is, is older or is newer than the one that serves.
        """
        stated = self.states.get(version)
        if stated is not None:
            return stated
        best = next(iter(self.may_serve(versions)), None)
        if version == best:
            return State.SERVING
        newest_first = list(versions)
        is_older = best in newest_first and newest_first.index(version) > newest_first.index(best)
        return State.RETIRED if is_older else State.CANDIDATE


def fold(changes: Iterable[Change], damaged: Sequence[str] = ()) -> History:
    """Return what changes make of versions, in whatever order they are given.

    One version serves at a time: promoting another retires it. What serves cannot be taken away
    but by another taking its place; such a change, written by somebody who did not know that it
    serves, does not count.
    """
    ordered = sorted(changes, key=lambda one: (one.sequence, one.change_id))
    states: dict[str, State] = {}
    served: list[str] = []
    refusals: dict[str, Change] = {}
    for change in ordered:
        if change.state is State.SERVING:
            before = served[-1] if served else change.previous
            served = _served_after(served, change)
            if before is not None:
                states[before] = State.RETIRED
            states[change.version] = State.SERVING
            refusals.pop(change.version, None)
        elif not served or served[-1] != change.version:
            states[change.version] = change.state
            if change.state is State.REFUSED:
                refusals[change.version] = change
            if change.state in (State.DELETED, State.REFUSED):
                served = [version for version in served if version != change.version]
    return History(
        changes=tuple(ordered),
        states=states,
        served=tuple(served),
        refusals=refusals,
        damaged=tuple(damaged),
    )


def _served_after(served: list[str], change: Change) -> list[str]:
    """Return the versions that served, once another does."""
    if change.action == ROLLBACK:
        at = served.index(change.version) if change.version in served else 0
        return [*served[:at], change.version]
    if not served and change.previous is not None:
        served = [change.previous]
    return [*(version for version in served if version != change.version), change.version]


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

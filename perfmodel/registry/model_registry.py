"""The registry: which version of a model serves, who decided so, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfmodel.errors import (
    DamagedArtifactError,
    InvalidInputError,
    OvertakenError,
    UnknownNameError,
)
from perfmodel.registry.file_store import FileStore
from perfmodel.registry.pins import PinNotes
from perfmodel.registry.state_log import StateLog
from perfmodel.registry.states import (
    PROMOTE,
    PUBLISH,
    ROLLBACK,
    Change,
    History,
    State,
    collectable,
)
from perfmodel.registry.version_files import VersionFiles
from perfmodel.store.artifacts import MANIFEST, is_safe_name

#: Retired versions of each model that collecting keeps, and how long one counts as pinned, days.
KEPT = 5
PINNED_FOR_DAYS = 7.0


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One version as the registry knows it.

    Parameters
    ----------
    manifest : mapping or None
        None: it is damaged, as ``problem`` says.
    """

    name: str
    version: str
    state: State
    manifest: Mapping[str, Any] | None
    problem: str = ""


class ModelRegistry:
    """Versions of models in a store, with their states.

    Nothing is locked. A change is added to a log that all hosts fold alike
    (:mod:`perfmodel.registry.states`), and whoever made it looks again whether it stands.

    Parameters
    ----------
    by : str
        Who makes the changes: a user, the identifier of a key, a job.
    """

    def __init__(self, files: FileStore, *, by: str = "") -> None:
        self.files = files
        self.versions = VersionFiles(files)
        self.pins = PinNotes(files)
        self._by = by
        self._logs: dict[str, StateLog] = {}

    def acting_for(self, by: str) -> ModelRegistry:
        """Return the same registry for changes by somebody else."""
        other = ModelRegistry(self.files, by=by)
        other.versions, other._logs = self.versions, self._logs
        return other

    def log(self, name: str) -> StateLog:
        """Return the changes of a model."""
        if not is_safe_name(name):
            raise self.versions.unknown(name, "")
        if name not in self._logs:
            self._logs[name] = StateLog(self.files, name)
        return self._logs[name]

    def history(self, name: str) -> History:
        """Return what became of the versions of a model."""
        return self.log(name).history()

    def serving(self, name: str) -> str | None:
        """Return the version that answers, damaged or not; None where none may."""
        sound = [one.version for one in self.listed(name) if one.manifest is not None]
        return next(iter(self.history(name).may_serve(sound)), None)

    def serving_reference(self, name: str) -> str:
        """Return name and version of what answers.

        Raises
        ------
        UnknownPredictorError
            There is no model of that name.
        InvalidInputError
            No version of it serves.
        """
        serving = self.serving(name)
        if serving is not None:
            return f"{name}/{serving}"
        self._there(name)
        raise InvalidInputError(
            f"No version of {name!r} serves. `perfmodel models list` says what became of each, and "
            "`perfmodel models promote` lets one serve."
        )

    def listed(self, name: str, history: History | None = None) -> list[Listed]:
        """Return every version of a model, newest first; those that are being written are none."""
        history, versions = history or self.history(name), self.versions.versions(name)
        found = []
        for version in versions:
            manifest, problem = None, ""
            try:
                manifest = self.versions.manifest(name, version)
            except UnknownNameError:
                continue
            except DamagedArtifactError as error:
                problem = error.message
            state = history.state_of(version, versions)
            found.append(
                Listed(name=name, version=version, state=state, manifest=manifest, problem=problem)
            )
        return found

    def publish(self, folder: Path, name: str, *, why: str = "") -> str:
        """Copy a version into the store, as a candidate: it serves once it is promoted.

        Returns
        -------
        str
            The version.
        """
        taken = self.history(name).states  # what was removed never comes back under its name
        version = self.versions.publish(folder, name, folder.name, taken=taken)
        self.log(name).append(version, State.CANDIDATE, action=PUBLISH, by=self._by, why=why)
        return version

    def free_version(self, folder: Path, name: str) -> str:
        """Return the name under which a local version would be published, its own if it can be."""
        manifest = (folder / MANIFEST).read_bytes()
        taken = {*self.versions.versions(name), *self.history(name).states}
        free, copy = folder.name, 2
        while free in taken and self.files.read(f"{name}/{free}/{MANIFEST}") != manifest:
            free, copy = f"{folder.name}.{copy}", copy + 1
        return free

    def publish_as(self, folder: Path, name: str, version: str, *, why: str = "") -> None:
        """Copy a version into the store under a name, as a candidate; however often, once.

        The change comes before the files: a version that is half published never serves by being
        the newest.

        Raises
        ------
        InvalidInputError
            It was removed from the store before.
        """
        history = self.history(name)
        _refuse_deleted(name, version, history)
        if version not in history.states:
            self.log(name).append(version, State.CANDIDATE, action=PUBLISH, by=self._by, why=why)
        self.versions.put(folder, name, version)

    def judge(self, name: str, version: str, state: State, *, why: str = "") -> Change:
        """Let a version that does not serve be a candidate, a shadow, retired or refused.

        Raises
        ------
        InvalidInputError
            It serves, or the state is none of these.
        OvertakenError
            Somebody let it serve meanwhile.
        """
        if state in (State.SERVING, State.DELETED):
            raise InvalidInputError(
                f"No judgement makes a version {state}; promoting and collecting versions do."
            )
        self.versions.manifest(name, version)
        if self.serving(name) == version:
            raise InvalidInputError(
                f"{name}/{version} serves. Promote another version, or roll back, before."
            )
        change = self._add(name, version, state, action="judge", why=why)
        if self.history(name).states.get(version) is not state:
            raise _overtaken(name, self.history(name))
        return change

    def promote(
        self,
        name: str,
        version: str,
        *,
        why: str = "",
        force: bool = False,
        check: Callable[[], object] = lambda: None,
    ) -> Change:
        """Let a version serve, on every host; one that serves already goes on, checked once more.

        Parameters
        ----------
        force : bool
            Even if it was refused, and be it a shadow since.
        check : callable
            Raises what is wrong with it beyond its files.

        Returns
        -------
        Change
            What was written; of a version that serves already the change that stands.

        Raises
        ------
        DamagedArtifactError
            A file of it is not what was written.
        InvalidInputError
            It was refused.
        OvertakenError
            Somebody promoted another one, or removed this one, at the same time.
        """
        self._check_promotable(name, version, force=force)
        self.versions.content(name, version)
        check()
        history = self.history(name)
        if history.serving == version:
            return _standing(history, version)
        return self._let_serve(name, version, PROMOTE, why)

    def rollback(
        self, name: str, *, why: str = "", check: Callable[[str], object] = lambda _: None
    ) -> Change:
        """Let the version serve that did before; one more rollback goes back further.

        One that is damaged by now is passed over.

        Parameters
        ----------
        check : callable
            Gets the version; raises what is wrong with it beyond its files.

        Raises
        ------
        InvalidInputError
            None served before, or none that is still there.
        DamagedArtifactError, OvertakenError
            As for :meth:`promote`.
        """
        history, there = self.history(name), self._there(name)
        damaged = None
        for version in history.before(there):
            try:
                self.versions.content(name, version)
                check(version)
            except DamagedArtifactError as error:
                damaged = error
                continue
            return self._let_serve(name, version, ROLLBACK, why)
        raise damaged or InvalidInputError(
            f"No version of {name!r} served before {history.serving or 'any other'}, as far as is "
            "known. `perfmodel models promote` lets any version serve."
        )

    def collect(
        self,
        name: str,
        *,
        keep: int = KEPT,
        pinned_for_days: float = PINNED_FOR_DAYS,
        why: str = "",
    ) -> list[str]:
        """Remove retired versions but for the newest few.

        One that serves, that is newer than the one that serves, or that was pinned lately stays;
        so does the one that a rollback would go back to.

        Returns
        -------
        list of str
            The versions that were removed, and those of which an earlier try had left something.
        """
        if keep < 0:
            raise InvalidInputError(f"keep must be >= 0; got {keep}.")
        versions, history = self._there(name), self.history(name)
        removed = [one for one in versions if history.states.get(one) is State.DELETED]
        pinned = self.pins.since(name, pinned_for_days)
        for version in collectable(history, versions, keep=keep, pinned=pinned):
            self._add(name, version, State.DELETED, action="collect", why=why)
            # Whoever promoted it meanwhile finds this change, or is found here.
            if self.history(name).states.get(version) is State.DELETED:
                removed.append(version)
        for version in removed:
            self.versions.remove(name, version)
        return removed

    def _there(self, name: str) -> list[str]:
        versions = self.versions.versions(name)
        if not versions:
            raise self.versions.unknown(name, "")
        return versions

    def _check_promotable(self, name: str, version: str, *, force: bool) -> None:
        self.versions.manifest(name, version)
        history = self.history(name)
        _refuse_deleted(name, version, history)
        refusal = history.refusals.get(version)
        if refusal is not None and not force:
            raise InvalidInputError(
                f"{name}/{version} was refused: {refusal.why or 'no reason is stated'}. To let it "
                "serve all the same, force it."
            )

    def _let_serve(self, name: str, version: str, action: str, why: str) -> Change:
        known = self.history(name)
        # It took its time to be compared and loaded; whoever collects did not wait for that.
        _refuse_deleted(name, version, known)
        before = self.serving(name)
        previous = before if before != version else None
        change = self._add(name, version, State.SERVING, action=action, why=why, previous=previous)
        history = self.history(name)
        meanwhile = [one for one in history.changes if one not in known.changes]
        if any(one.state is State.DELETED and one.version == version for one in meanwhile):
            # Its files may go at any moment; what served before does again.
            if before is not None:
                self._add(name, before, State.SERVING, action=ROLLBACK, why="removed meanwhile")
            raise _overtaken(name, self.history(name))
        if history.serving != version:
            raise _overtaken(name, history)
        return change

    def _add(
        self,
        name: str,
        version: str,
        state: State,
        *,
        action: str,
        why: str = "",
        previous: str | None = None,
    ) -> Change:
        return self.log(name).append(
            version, state, action=action, by=self._by, why=why, previous=previous
        )


def _standing(history: History, version: str) -> Change:
    """Return the change by which a version serves."""
    made = (one for one in reversed(history.changes) if one.version == version)
    return replace(next(one for one in made if one.state is State.SERVING), previous=version)


def _refuse_deleted(name: str, version: str, history: History) -> None:
    if history.states.get(version) is State.DELETED:
        raise InvalidInputError(f"{name}/{version} is being removed; publish it anew.")


def _overtaken(name: str, history: History) -> OvertakenError:
    last = history.changes[-1]
    return OvertakenError(
        f"Another change was made at the same time and stands: {last.action} of "
        f"{name}/{last.version} by {last.by or 'somebody'}. Look at `perfmodel models list`, then "
        "decide again."
    )

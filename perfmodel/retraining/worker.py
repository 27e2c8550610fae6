"""A worker: takes retrainings on, has each done by a child, and keeps what came of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perfmodel.errors import StoreError
from perfmodel.retraining.child_process import ChildProcess
from perfmodel.retraining.run_folder import PHASES, Phase, fraction_before
from perfmodel.retraining.workplace import Workplace
from perfmodel.store.retraining import RetrainingLogStore, RetrainingStore
from perfmodel.store.retraining.retraining_records import (
    Retraining,
    RetrainingState,
)
from perfmodel.store.retraining.retraining_store import MOST_ATTEMPTS
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.leases import new_owner

#: Memory past which a retraining is ended, all its processes together, bytes.
MEMORY_BYTES = 8 * 1024**3
#: How often it is looked what the child says, how much it holds, and what is left to be written.
_LOOK_S = 0.5


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How a worker works.

    Parameters
    ----------
    memory_bytes : float
        Resident memory of all processes of a retraining past which it is ended, and fails.
    lease_s : float
        Time after which a worker that is not heard of has lost its retraining, seconds.
    pause_s : float
        Time for which one that could not be done now (a store is away, a disk is full) waits.
    poll_s : float
        How often it is looked for something to do, seconds.
    """

    memory_bytes: float = MEMORY_BYTES
    lease_s: float = 60.0
    pause_s: float = 60.0
    poll_s: float = 5.0


class RetrainingWorker:
    """Does retrainings, one at a time.

    Parameters
    ----------
    on_line : callable
        Is told phase and text of what happens.

    Raises
    ------
    StoreError
        The database cannot be used; what runs comes back when its lease has run out.
    """

    def __init__(
        self,
        connections: Connections,
        place: Workplace,
        options: WorkerOptions | None = None,
        *,
        on_line: Callable[[str, str], None] = lambda phase, text: None,
    ) -> None:
        self._store = RetrainingStore(connections)
        self._log = RetrainingLogStore(connections)
        self._place = place
        self._options = options or WorkerOptions()
        self._on_line = on_line
        #: Names this worker among all that share the database.
        self.owner = new_owner()

    def work(self, *, until_idle: bool = False) -> int:
        """Do what waits, one after the other, and what comes in; return how many were done.

        Parameters
        ----------
        until_idle : bool
            End when nothing waits.
        """
        done = 0
        while True:
            if self.do_one() is not None:
                done += 1
            elif until_idle:
                return done
            else:
                time.sleep(self._options.poll_s)

    def do_one(self, name: str | None = None) -> Retraining | None:
        """Do the retraining whose turn it is, or one by its name; None where there is none."""
        self._store.give_up_lost()
        claim = self._store.claim(self.owner, lease_s=self._options.lease_s, name=name)
        if claim is None:
            return None
        self._sweep(claim)
        try:
            with ChildProcess(claim, self._place) as child:
                last = _Watched(self, child, claim).until_its_end()
        except BaseException:
            # Interrupted: another worker goes on, or this one later.
            with suppress(StoreError):
                self._store.put_back(claim)
            raise
        self._end(claim, last)
        return self._store.find(claim.name)

    def _end(self, claim: Retraining, last: Mapping[str, Any]) -> None:
        """Keep what came of an attempt."""
        reason = last.get("reason")
        match last["ended"]:
            case "overtaken":
                pass
            case "later" if claim.attempts < MOST_ATTEMPTS:
                self.note(claim, "", f"{reason} It is tried again in {self._options.pause_s:g} s.")
                self._store.put_back(claim, wait_s=self._options.pause_s, counts=True)
                return
            case "lost" if claim.attempts < MOST_ATTEMPTS:
                self.note(claim, "", f"{reason} It goes on from the last finished phase.")
                self._store.put_back(claim, counts=True)
                return
            case "later" | "lost":
                self._store.end(claim, RetrainingState.FAILED, reason=reason)
            case state:
                self._store.end(
                    claim,
                    RetrainingState(state),
                    version=last.get("version"),
                    decision=last.get("decision"),
                    reason=reason,
                )
        self.note(claim, "", f"{last['ended']}{f': {reason}' if reason else ''}")
        shutil.rmtree(self._place.folder / claim.name, ignore_errors=True)

    def note(self, claim: Retraining, phase: str, text: str) -> None:
        """Say something, and keep it in the log if that can be done now."""
        line = f"{phase}: {text}" if phase else text
        self._on_line(phase, text)
        with suppress(StoreError):
            self._log.add(claim.name, claim.attempts, [line])

    def tell(self, claim: Retraining, lines: list[Mapping[str, Any]]) -> bool:
        """Keep what the child has said; False where the database is away."""
        texts = [f"{one['phase']}: {one['text']}" if one["phase"] else one["text"] for one in lines]
        phases = [one for one in lines if one["phase"]]
        try:
            # The log comes last: what is told again after a failure stands in it once.
            if phases:
                self._store.tell(
                    claim,
                    phase=phases[-1]["phase"],
                    progress=phases[-1]["text"],
                    fraction=_fraction(phases[-1]),
                )
            self._log.add(claim.name, claim.attempts, texts)
        except StoreError:
            return False
        return True

    def is_its_own(self, claim: Retraining) -> bool:
        """Renew the lease; False where the retraining was cancelled, or taken by another."""
        try:
            return self._store.renew(self.owner, [claim.name], lease_s=self._options.lease_s)
        except StoreError:
            return True  # as far as is known; what takes effect asks again

    @property
    def options(self) -> WorkerOptions:
        """How it works."""
        return self._options

    def show(self, line: Mapping[str, Any]) -> None:
        """Tell whoever looks on."""
        self._on_line(line["phase"], line["text"])

    def _sweep(self, claim: Retraining) -> None:
        """Remove what is left of runs that have ended elsewhere, or were cancelled."""
        if not self._place.folder.is_dir():
            return
        for folder in self._place.folder.iterdir():
            if folder.name == claim.name or not folder.is_dir():
                continue
            found = self._store.find(folder.name)
            if found is not None and not found.state.is_open:
                shutil.rmtree(folder, ignore_errors=True)


class _Watched:
    """One child, from its start to its end."""

    def __init__(self, worker: RetrainingWorker, child: ChildProcess, claim: Retraining) -> None:
        self._worker = worker
        self._child = child
        self._claim = claim
        self._unwritten: list[Mapping[str, Any]] = []
        self._last: Mapping[str, Any] | None = None

    def until_its_end(self) -> Mapping[str, Any]:
        """Watch the child, and return the line that says how it ended."""
        options = self._worker.options
        renewed_at = time.monotonic()
        while True:
            ended = self._child.has_ended()
            self._take(self._child.lines(0.0 if ended else min(_LOOK_S, options.lease_s / 6)))
            if ended:
                self._take(self._child.lines(0.0))
                return self._last or {"ended": "lost", "reason": self._child.how_it_ended()}
            held = self._child.memory_bytes()
            if held > options.memory_bytes:
                return {"ended": "failed", "reason": _too_much(held, options.memory_bytes)}
            if time.monotonic() - renewed_at > options.lease_s / 3:
                renewed_at = time.monotonic()
                if not self._worker.is_its_own(self._claim):
                    return {"ended": "overtaken", "reason": "cancelled, or taken by another worker"}

    def _take(self, lines: list[Mapping[str, Any]]) -> None:
        for line in lines:
            if "ended" in line:
                self._last = line
            else:
                self._worker.show(line)
                self._unwritten.append(line)
        if self._unwritten and self._worker.tell(self._claim, self._unwritten):
            self._unwritten = []


def _too_much(held_bytes: float, allowed_bytes: float) -> str:
    return (
        f"It held {held_bytes / 1e9:.3g} GB of memory; {allowed_bytes / 1e9:.3g} are allowed. "
        "Allow more (--memory, PERFMODEL_RETRAINING_MEMORY_BYTES), or let it learn with fewer "
        "processes."
    )


def _fraction(line: Mapping[str, Any]) -> float:
    begun = fraction_before(Phase(line["phase"]))
    if line["text"] != "is finished":
        return begun
    following = PHASES.index(Phase(line["phase"])) + 1
    return fraction_before(PHASES[following]) if following < len(PHASES) else 1.0

"""Which process lets a version answer beside the one that serves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, Select, select, update

from perfmodel.store.sql.leases import RUNNING, WAITING, LeasedStore, clock, new_work
from perfmodel.store.sql.shared_store import insert_new, record_from
from perfmodel.store.sql.tables import SHADOW_RUNS

#: How often in a row a comparison may end badly before somebody has to start it again.
MOST_ATTEMPTS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ShadowRun:
    """How the comparison of a version is getting on.

    Parameters
    ----------
    name : str
        ``"<name>/<version>"``.
    state : str
        ``"waiting"`` or ``"running"``.
    attempts : int
        How often it ended badly in a row, with the one that is under way.
    problem : str or None
        How it ended badly last.
    """

    name: str
    state: str
    attempts: int
    problem: str | None
    created_at: str
    updated_at: str

    @property
    def is_given_up(self) -> bool:
        """Whether nobody tries again unless it is started anew."""
        return self.state != RUNNING and self.attempts >= MOST_ATTEMPTS


class ShadowRunStore(LeasedStore):
    """Keeps who compares which version; one process does at a time."""

    work = SHADOW_RUNS

    def enter(self, name: str) -> None:
        """Let a version be compared, unless it is already."""
        with self._connections.writing() as connection:
            insert_new(connection, SHADOW_RUNS, [new_work(name)], "name")

    def begin_anew(self, name: str) -> None:
        """Let a version be compared now, however often that ended badly."""
        self.enter(name)
        given_up = (SHADOW_RUNS.c.name == name, SHADOW_RUNS.c.state == WAITING)
        self._write(update(SHADOW_RUNS).where(*given_up).values(attempts=0, lease_until=0.0))

    def find(self, name: str) -> ShadowRun | None:
        """Return how a comparison is getting on; None of a version that was never a shadow."""
        return self._find(select(SHADOW_RUNS).where(SHADOW_RUNS.c.name == name), _run)

    def take(self, name: str, owner: str, *, lease_s: float) -> ShadowRun | None:
        """Take a comparison on; None where somebody else has it, or it ended badly too often."""

        def mine(connection: Connection) -> Select[tuple[int]]:
            free = self._may_be_taken(connection, most_attempts=MOST_ATTEMPTS)
            return select(SHADOW_RUNS.c.id).where(free, SHADOW_RUNS.c.name == name)

        row = self._take(owner, mine, lease_s=lease_s)
        return None if row is None else _run(row)

    def end(self, held: ShadowRun, problem: str | None, *, wait_s: float = 0.0) -> None:
        """Let it wait until there is more to compare, or to be tried again.

        Parameters
        ----------
        problem : str or None
            How it ended badly; None: it did not, and earlier problems are forgotten.
        """
        with self._connections.writing() as connection:
            self._write_held(
                connection,
                held,
                state=WAITING,
                problem=problem,
                attempts=0 if problem is None else held.attempts,
                lease_until=clock(connection) + wait_s,
            )


_run = partial(record_from, ShadowRun)

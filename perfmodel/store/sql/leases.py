"""Leases on rows of a table: who works on what, and when somebody else may.

A worker that takes a row on holds a lease on it and renews that as long as it lives. A row whose
lease has run out lost its worker, and anybody may take it over. Each taking is an attempt with a
number of its own; what an earlier attempt brings after it was taken to be lost finds the number
changed and is dropped, so that a row ends exactly once. Leases are measured by the clock of the
database, the only one that all hosts share. Stores whose rows are such work begin with
:class:`LeasedStore`.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Row,
    Select,
    Table,
    and_,
    cast,
    func,
    literal,
    or_,
    select,
    update,
)

from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import SharedStore

#: States that every table of leases has; others are its own.
WAITING, RUNNING = "waiting", "running"

#: No lease is given for longer. One that seems to be was given before the clock of the database
#: went back, and counts no more.
LONGEST_LEASE_S = 4 * 3600.0

#: Julian day at which POSIX time begins.
_EPOCH_DAY = 2_440_587.5
_DAY_S = 86_400.0


class Held(Protocol):
    """What somebody has taken on."""

    @property
    def name(self) -> str:
        """Of the row."""

    @property
    def attempts(self) -> int:
        """How often it was begun, this time included."""


def new_work(name: str) -> dict[str, Any]:
    """Return the columns of leases, and times, of a row that is entered now and waits."""
    return {
        "name": name, "state": WAITING, "owner": "", "attempts": 0, "lease_until": 0.0,
        "created_at": now(), "updated_at": now(),
    }  # fmt: skip


def new_owner() -> str:
    """Return a name for this process among all that share the database, never given before."""
    return f"{socket.gethostname()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"


class LeasedStore(SharedStore):
    """Rows of a table as work to be taken on; each store says what is due, and how it ends.

    Attributes
    ----------
    work : Table
        With the columns ``id``, ``name``, ``state``, ``owner``, ``attempts``, ``lease_until`` and
        ``updated_at``.
    """

    work: ClassVar[Table]

    def _may_be_taken(self, connection: Connection, *, most_attempts: int) -> ColumnElement[bool]:
        """Return what holds for rows that wait, or have lost their worker, and may be begun."""
        return and_(self._is_due(connection), self.work.c.attempts < most_attempts)

    def _take(
        self,
        owner: str,
        which: Callable[[Connection], Select[tuple[int]]],
        *,
        lease_s: float,
    ) -> Row[Any] | None:
        """Take on the first row that a query finds, and return it as it is then; None without any.

        Parameters
        ----------
        which : callable
            Builds the query for the ``id`` of rows that may be taken, first choice first.
        lease_s : float
            Time within which it has to be renewed, seconds.
        """
        with self._connections.reading() as connection:
            # Nobody is kept from writing by a look that finds nothing, as most do.
            if connection.execute(which(connection).limit(1)).first() is None:
                return None
        table = self.work
        with self._connections.writing() as connection:
            # Another host that claims at the same time looks past the row that this one holds.
            first = which(connection).limit(1).with_for_update(skip_locked=True, of=table)
            number = connection.execute(first).scalar()
            if number is None:
                return None
            return connection.execute(
                update(table)
                .where(table.c.id == number)
                .values(
                    state=RUNNING,
                    owner=owner,
                    attempts=table.c.attempts + 1,
                    lease_until=_until(connection, lease_s),
                    updated_at=now(),
                )
                .returning(*table.c)
            ).one()

    def renew(self, owner: str, names: Collection[str], *, lease_s: float) -> bool:
        """Say that a worker still lives; False where one of them is not its own any more."""
        table = self.work.c
        with self._connections.writing() as connection:
            renewed = connection.execute(
                update(self.work)
                .where(table.name.in_(names), table.owner == owner, table.state == RUNNING)
                .values(lease_until=_until(connection, lease_s))
            )
        return int(renewed.rowcount) == len(names)

    def put_back(self, held: Held, *, wait_s: float = 0.0, counts: bool = False) -> bool:
        """Let something wait again; False where somebody else has it by now.

        Parameters
        ----------
        wait_s : float
            Time for which nobody tries again, seconds.
        counts : bool
            Whether this was an attempt; not, where the reason is none of its own.
        """
        with self._connections.writing() as connection:
            changed = connection.execute(
                update(self.work)
                .where(self._is_held(held))
                .values(
                    state=WAITING,
                    attempts=held.attempts - (0 if counts else 1),
                    lease_until=_until(connection, wait_s),
                    updated_at=now(),
                )
            )
        return changed.rowcount > 0

    def _put_held(self, held: Held, *, state: str, **values: object) -> bool:
        """Write what came of a row; False where somebody else has it."""
        with self._connections.writing() as connection:
            return self._write_held(connection, held, state=state, **values)

    def _write_held(
        self, connection: Connection, held: Held, *, state: str, **values: object
    ) -> bool:
        """Write the same in an open transaction."""
        changed = connection.execute(
            update(self.work)
            .where(self._is_held(held))
            .values(state=state, updated_at=now(), **values)
        )
        return changed.rowcount > 0

    def _give_up(self, most_attempts: int, *, state: str, **values: object) -> int:
        """End what lost its worker so often; return how many rows those were."""
        with self._connections.writing() as connection:
            lost = and_(self._is_due(connection), self.work.c.attempts >= most_attempts)
            changed = connection.execute(
                update(self.work).where(lost).values(state=state, updated_at=now(), **values)
            )
        return int(changed.rowcount)

    @classmethod
    def _ran_out(cls, connection: Connection, age_s: float) -> ColumnElement[bool]:
        """Return whether the last lease of a row ran out so many seconds ago."""
        return cls.work.c.lease_until < clock(connection) - age_s

    @classmethod
    def _is_held(cls, held: Held) -> ColumnElement[bool]:
        table = cls.work.c
        same = table.name == held.name, table.attempts == held.attempts
        return and_(table.state == RUNNING, *same)

    def _is_due(self, connection: Connection) -> ColumnElement[bool]:
        table, time = self.work.c, clock(connection)
        ran_out = or_(table.lease_until <= time, table.lease_until > time + LONGEST_LEASE_S)
        return and_(table.state.in_((WAITING, RUNNING)), ran_out)


def clock(connection: Connection) -> ColumnElement[float]:
    """Return the time of the database in POSIX seconds."""
    if connection.dialect.name == "sqlite":
        return (func.julianday("now", type_=Double) - literal(_EPOCH_DAY)) * literal(_DAY_S)
    return cast(func.extract("epoch", func.clock_timestamp()), Double)


def time_of(connection: Connection) -> str:
    """Return the time of the database as it is written in every table: UTC, ISO 8601."""
    seconds = connection.execute(select(clock(connection))).scalar_one()
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _until(connection: Connection, lease_s: float) -> ColumnElement[float]:
    return clock(connection) + min(lease_s, LONGEST_LEASE_S)

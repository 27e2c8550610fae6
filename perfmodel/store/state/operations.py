"""Requests that are answered later: who works on them, and what came of them.

Whoever works on an operation holds a lease on it (:mod:`perfmodel.store.sql.leases`).
"""

from __future__ import annotations

import secrets
import zlib
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial

from sqlalchemy import ColumnElement, Connection, Select, and_, delete, func, insert, select

from perfmodel.store.sql import leases
from perfmodel.store.sql.leases import LeasedStore
from perfmodel.store.sql.shared_store import Page, record_from
from perfmodel.store.sql.tables import OPERATIONS


class OperationState(StrEnum):
    """Where an operation stands."""

    WAITING = leases.WAITING
    RUNNING = leases.RUNNING
    DONE = "done"
    FAILED = "failed"


_OPEN = (OperationState.WAITING.value, OperationState.RUNNING.value)
_ENDED = (OperationState.DONE.value, OperationState.FAILED.value)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A request that is answered later.

    Parameters
    ----------
    name : str
        By which it is asked for.
    status : int or None
        HTTP status of its answer.
    problem : str or None
        What stopped it, as JSON.
    """

    name: str
    kind: str
    state: OperationState
    caller: str
    attempts: int
    status: int | None
    problem: str | None
    created_at: str
    updated_at: str

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state.value in _ENDED


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim(Operation):
    """An operation that a worker has taken on, with what was given to :meth:`OperationStore.start`.

    What an earlier attempt brings after it was taken to be lost is dropped.
    """

    request: bytes


class OperationStore(LeasedStore):
    """Keeps operations."""

    work = OPERATIONS

    def start(
        self,
        kind: str,
        request: bytes,
        *,
        owner: str,
        caller: str = "",
        most_open: int = 1_000,
        most_of_caller: int | None = None,
    ) -> Operation | None:
        """Keep a new operation, which waits for a worker.

        Parameters
        ----------
        request : bytes
            All that a worker needs; forgotten when the operation has ended.
        owner : str
            The process that takes it in.
        most_open, most_of_caller : int, int or None
            Operations that may be open, of all and of one caller; None: as many as of all.

        Returns
        -------
        Operation or None
            None where too many are open.
        """
        name = secrets.token_hex(16)
        values = {
            **leases.new_work(name), "kind": kind, "caller": caller,
            "request": zlib.compress(request, 1), "owner": owner,
        }  # fmt: skip
        with self._connections.writing() as connection:
            is_open = OPERATIONS.c.state.in_(_OPEN)
            if _count(connection, is_open) >= most_open:
                return None
            own = and_(is_open, OPERATIONS.c.caller == caller)
            if most_of_caller is not None and _count(connection, own) >= most_of_caller:
                return None
            connection.execute(insert(OPERATIONS).values(**values))
        return self.find(name)

    def claim(self, owner: str, *, lease_s: float, most_attempts: int = 5) -> Claim | None:
        """Take on an operation that waits or has lost its worker; None without any.

        It is the oldest one of the callers of whom fewest are worked on, so that none waits for all
        that another has brought.

        Parameters
        ----------
        lease_s : float
            Time within which it has to be renewed, seconds.
        most_attempts : int
            What was begun so often is left alone.
        """
        table = OPERATIONS.c

        other = OPERATIONS.alias()
        running = and_(
            other.c.caller == table.caller, other.c.state == OperationState.RUNNING.value
        )
        at_work = select(func.count()).select_from(other).where(running).scalar_subquery()

        def next_one(connection: Connection) -> Select[tuple[int]]:
            due = self._may_be_taken(connection, most_attempts=most_attempts)
            return select(table.id).where(due).order_by(at_work, table.id)

        row = self._take(owner, next_one, lease_s=lease_s)
        if row is None:
            return None
        return record_from(Claim, row, request=zlib.decompress(row.request))

    def finish(self, claim: Claim, result: bytes, *, status: int = 200) -> bool:
        """Keep what came of an operation; False where somebody else has it by now."""
        return self._end(
            claim, state=OperationState.DONE, status=status, result=zlib.compress(result, 1)
        )

    def fail(self, claim: Claim, problem: str, *, status: int) -> bool:
        """Keep what stopped an operation; False where somebody else has it by now."""
        return self._end(claim, state=OperationState.FAILED, status=status, problem=problem)

    def give_up(self, problem: str, *, status: int, most_attempts: int = 5) -> int:
        """Fail what lost its worker as often as it was begun, or may be begun no more."""
        return self._give_up(
            most_attempts,
            state=OperationState.FAILED.value,
            status=status,
            problem=problem,
            request=None,
        )

    def find(self, name: str) -> Operation | None:
        """Return an operation, or None."""
        return self._find(select(*_FACTS).where(OPERATIONS.c.name == name), _operation)

    def result(self, name: str) -> bytes | None:
        """Return what came of an operation, or None as long as nothing did."""
        query = select(OPERATIONS.c.result).where(OPERATIONS.c.name == name)
        found = next(iter(self._column(query)), None)
        return None if found is None else zlib.decompress(found)

    def page(
        self,
        *,
        state: OperationState | None = None,
        kind: str | None = None,
        caller: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Page[Operation]:
        """Return some operations, newest first: those of a state, a kind, a caller, or all."""
        query = select(*_FACTS)
        if caller is not None:
            query = query.where(OPERATIONS.c.caller == caller)
        if state is not None:
            query = query.where(OPERATIONS.c.state == state.value)
        if kind is not None:
            query = query.where(OPERATIONS.c.kind == kind)
        return self._page(query, OPERATIONS.c.id, _operation, cursor=cursor, limit=limit)

    def remove(self, name: str) -> bool:
        """Forget an operation; whoever works on it works for nothing. False without it."""
        return self._write(delete(OPERATIONS).where(OPERATIONS.c.name == name)) > 0

    def forget_ended(self, keep_s: float) -> int:
        """Forget what ended so long ago, by the clock of all hosts; return how many those were."""
        with self._connections.writing() as connection:
            # Until it ended somebody held a lease.
            old = and_(OPERATIONS.c.state.in_(_ENDED), self._ran_out(connection, keep_s))
            return int(connection.execute(delete(OPERATIONS).where(old)).rowcount)

    def open_of(self, caller: str) -> int:
        """Return how many operations of a caller are open."""
        own = and_(OPERATIONS.c.state.in_(_OPEN), OPERATIONS.c.caller == caller)
        with self._connections.reading() as connection:
            return _count(connection, own)

    def depth(self, owner: str) -> int:
        """Return how many open operations a process took in or works on."""
        is_open = OPERATIONS.c.state.in_(_OPEN)
        with self._connections.reading() as connection:
            return _count(connection, and_(is_open, OPERATIONS.c.owner == owner))

    def _end(self, claim: Claim, *, state: OperationState, **values: object) -> bool:
        return self._put_held(claim, state=state.value, request=None, **values)


_FACTS = tuple(OPERATIONS.c[name] for name in ("id", *(f.name for f in fields(Operation))))


def _count(connection: Connection, where: ColumnElement[bool]) -> int:
    query = select(func.count()).select_from(OPERATIONS).where(where)
    return int(connection.execute(query).scalar_one())


_operation = partial(record_from, Operation)

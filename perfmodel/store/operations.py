"""Work that outlasts its request: how far it is, and what came of it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row, insert, select, update

from perfmodel.store.connections import Connections, now
from perfmodel.store.pages import Page, read_cursor, write_cursor
from perfmodel.store.tables import OPERATIONS


class OperationState(StrEnum):
    """Where an operation stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """Work that outlasts its request.

    Parameters
    ----------
    name : str
        By which it is asked for.
    kind : str
        What it does.
    state : OperationState
    progress : float
        Share that is done, 0 to 1.
    result, problem : str or None
        What came of it, or what stopped it, as JSON.
    created_at, updated_at : str
        UTC, ISO 8601.
    """

    name: str
    kind: str
    state: OperationState
    progress: float
    result: str | None
    problem: str | None
    created_at: str
    updated_at: str


class OperationStore:
    """Keeps operations; may be shared by threads and processes.

    Parameters
    ----------
    connections : Connections
        To a database of the newest schema.

    Raises
    ------
    StoreError
        In every method: the database cannot be read or written.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def start(self, kind: str) -> Operation:
        """Keep a new operation, which runs."""
        begun = now()
        operation = Operation(
            name=secrets.token_hex(16),
            kind=kind,
            state=OperationState.RUNNING,
            progress=0.0,
            result=None,
            problem=None,
            created_at=begun,
            updated_at=begun,
        )
        values = {
            "name": operation.name, "kind": kind, "state": operation.state.value,
            "progress": 0.0, "created_at": begun, "updated_at": begun,
        }  # fmt: skip
        with self._connections.writing() as connection:
            connection.execute(insert(OPERATIONS).values(**values))
        return operation

    def advance(self, name: str, progress: float) -> bool:
        """Say how far an operation is; False where it does not run."""
        return self._update(name, progress=progress)

    def finish(self, name: str, result: str) -> bool:
        """Keep what came of an operation; False where it does not run."""
        return self._update(name, state=OperationState.DONE.value, progress=1.0, result=result)

    def fail(self, name: str, problem: str) -> bool:
        """Keep what stopped an operation; False where it does not run."""
        return self._update(name, state=OperationState.FAILED.value, problem=problem)

    def find(self, name: str) -> Operation | None:
        """Return an operation, or None."""
        query = select(OPERATIONS).where(OPERATIONS.c.name == name)
        with self._connections.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _operation(row)

    def page(self, *, cursor: str | None = None, limit: int = 100) -> Page[Operation]:
        """Return some operations, newest first.

        Raises
        ------
        InvalidInputError
            Not a cursor.
        """
        query = select(OPERATIONS).order_by(OPERATIONS.c.id.desc()).limit(limit + 1)
        before = read_cursor(cursor)
        if before is not None:
            query = query.where(OPERATIONS.c.id < before)
        with self._connections.reading() as connection:
            rows = connection.execute(query).all()
        return Page(
            items=tuple(_operation(row) for row in rows[:limit]),
            next_cursor=write_cursor(rows[limit - 1].id) if len(rows) > limit else None,
        )

    def _update(self, name: str, **values: object) -> bool:
        running = (OPERATIONS.c.name == name) & (OPERATIONS.c.state == OperationState.RUNNING.value)
        with self._connections.writing() as connection:
            changed = connection.execute(
                update(OPERATIONS).where(running).values(updated_at=now(), **values)
            )
        return changed.rowcount > 0


def _operation(row: Row[Any]) -> Operation:
    return Operation(
        name=row.name,
        kind=row.kind,
        state=OperationState(row.state),
        progress=row.progress,
        result=row.result,
        problem=row.problem,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )

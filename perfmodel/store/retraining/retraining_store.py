"""Retrainings: entered, taken on, told of, cancelled, ended once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, func, select, update

from perfmodel.store.retraining.entering import enter
from perfmodel.store.retraining.retraining_records import (
    Retraining,
    RetrainingState,
    Trigger,
)
from perfmodel.store.sql.connections import ExistsError, now
from perfmodel.store.sql.leases import LeasedStore
from perfmodel.store.sql.shared_store import Page, as_column, record_from
from perfmodel.store.sql.tables import RETRAININGS

#: A retraining that lost its worker so often took it with it, and is given up.
MOST_ATTEMPTS = 5

_TABLE = RETRAININGS.c
_OPEN = (RetrainingState.WAITING.value, RetrainingState.RUNNING.value)


class RetrainingStore(LeasedStore):
    """Keeps retrainings, at most one of each model open: the database refuses a second."""

    work = RETRAININGS

    def start(
        self,
        model: str,
        *,
        trigger: Trigger = Trigger.HAND,
        why: str = "",
        caller: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> tuple[Retraining, bool]:
        """Enter a retraining, which waits for a worker.

        Returns
        -------
        retraining : Retraining
            The new one, or the one of that model that is open.
        created : bool
            False where one was open, which stays as it is.
        """
        while True:
            try:
                with self._connections.writing() as connection:
                    name = enter(
                        connection, model, trigger=trigger, why=why, caller=caller,
                        settings=settings or {},
                    )  # fmt: skip
            except ExistsError:
                open_one = self.open_of(model)
                if open_one is not None:
                    return open_one, False
                continue  # it has ended in between
            found = self.find(name)
            assert found is not None, "retrainings are never removed"
            return found, True

    def find(self, name: str) -> Retraining | None:
        """Return a retraining, or None."""
        return self._find(select(RETRAININGS).where(_TABLE.name == name), _retraining)

    def open_of(self, model: str) -> Retraining | None:
        """Return the retraining of a model that waits or runs, or None."""
        query = select(RETRAININGS).where(_TABLE.model == model, _TABLE.state.in_(_OPEN))
        return self._find(query, _retraining)

    def page(
        self, *, model: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[Retraining]:
        """Return some retrainings, newest first."""
        query = select(RETRAININGS)
        if model is not None:
            query = query.where(_TABLE.model == model)
        return self._page(query, _TABLE.id, _retraining, cursor=cursor, limit=limit)

    def states(self) -> dict[str, int]:
        """Return how many retrainings are in each state; every state is there."""
        query = select(_TABLE.state, func.count()).group_by(_TABLE.state)
        found = {row[0]: int(row[1]) for row in self._rows(query)}
        return {state.value: found.get(state.value, 0) for state in RetrainingState}

    def has_due(self) -> bool:
        """Tell whether one waits, or has lost its worker."""
        with self._connections.reading() as connection:
            return connection.execute(self._due(connection).limit(1)).first() is not None

    def claim(self, owner: str, *, lease_s: float, name: str | None = None) -> Retraining | None:
        """Take on the retraining that was entered first, or has lost its worker; None without any.

        Parameters
        ----------
        name : str or None
            This one only.
        """

        def due(connection: Connection) -> Select[tuple[int]]:
            query = self._due(connection)
            return query if name is None else query.where(_TABLE.name == name)

        row = self._take(owner, due, lease_s=lease_s)
        return None if row is None else _retraining(row)

    def tell(self, claim: Retraining, *, phase: str, progress: str, fraction: float) -> bool:
        """Keep how far a retraining is; False where somebody else has it by now."""
        return self._tell(claim, phase=phase, progress=progress[:300], fraction=fraction)

    def decide(
        self, claim: Retraining, *, version: str | None, decision: Mapping[str, Any] | None
    ) -> bool:
        """Keep what was decided before it takes effect; False where somebody else has it by now.

        None for both takes it back.
        """
        return self._tell(claim, version=version, decision=as_column(decision))

    def end(
        self,
        claim: Retraining,
        state: RetrainingState,
        *,
        version: str | None = None,
        decision: Mapping[str, Any] | None = None,
        reason: str | None = None,
    ) -> bool:
        """Keep what came of a retraining; False where somebody else has it by now."""
        return self._put_held(
            claim,
            state=state.value,
            version=version,
            decision=as_column(decision),
            reason=reason,
        )

    def give_up_lost(self) -> int:
        """Fail retrainings that took their workers with them; return how many those were."""
        reason = (
            f"Its process was lost {MOST_ATTEMPTS} times (killed, out of memory, or the machine "
            "went down). Its log says where; learn from less, or give it more memory."
        )
        return self._give_up(MOST_ATTEMPTS, state=RetrainingState.FAILED.value, reason=reason)

    def cancel(self, name: str) -> bool:
        """End an open retraining without a result.

        Returns
        -------
        bool
            False where none of that name is open, or its version is being published.
        """
        is_open = (_TABLE.name == name, _TABLE.state.in_(_OPEN), _TABLE.version.is_(None))
        ended = {
            "state": RetrainingState.CANCELLED.value,
            "reason": "It was cancelled.",
            "updated_at": now(),
        }
        return self._write(update(RETRAININGS).where(*is_open).values(**ended)) > 0

    def _due(self, connection: Connection) -> Select[tuple[int]]:
        free = self._may_be_taken(connection, most_attempts=MOST_ATTEMPTS)
        return select(_TABLE.id).where(free).order_by(_TABLE.id)

    def _tell(self, claim: Retraining, **values: object) -> bool:
        return self._put_held(claim, state=RetrainingState.RUNNING.value, **values)


_retraining = partial(record_from, Retraining)

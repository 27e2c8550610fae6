"""Retrainings are entered: by hand, or by what a model watches, one decision for all hosts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert

from perfmodel.store.retraining.retraining_marks import (
    Arrivals,
    Mark,
    arrivals_since,
    mark_of_now,
    read_mark,
    write_mark,
)
from perfmodel.store.retraining.retraining_records import Trigger
from perfmodel.store.sql.connections import ExistsError
from perfmodel.store.sql.leases import new_work
from perfmodel.store.sql.shared_store import SharedStore, as_column
from perfmodel.store.sql.tables import RETRAININGS


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What follows from what came in.

    Parameters
    ----------
    mark : Mark
        As it shall be; where a retraining starts it begins from here.
    trigger : Trigger or None
        Of the retraining that starts; None: none does.
    """

    mark: Mark
    trigger: Trigger | None = None
    why: str = ""


#: Decides on the mark of a model (None before the first look) and what came in since.
Decide = Callable[[Mark | None, Arrivals], Decision]


def enter(
    connection: Connection,
    model: str,
    *,
    trigger: Trigger,
    why: str,
    caller: str,
    settings: Mapping[str, Any],
) -> str:
    """Enter a retraining in an open transaction, and begin to count anew; return its name.

    Raises
    ------
    ExistsError
        One of that model is open.
    """
    name = secrets.token_hex(12)
    row = {
        **new_work(name), "model": model, "trigger": trigger.value, "why": why, "caller": caller,
        "settings": as_column(settings), "phase": "", "progress": "", "fraction": 0.0,
    }  # fmt: skip
    connection.execute(insert(RETRAININGS).values(**row))
    mark = read_mark(connection, model, locked=True)
    write_mark(connection, model, mark_of_now(connection, mark))
    return name


class TriggerStore(SharedStore):
    """Starts retrainings by what came in; any number of processes may look, one of them starts.

    Raises
    ------
    StoreError
        The database cannot be read or written.
    """

    def look(
        self,
        model: str,
        decide: Decide,
        *,
        most_observations: int,
        caller: str,
        settings: Mapping[str, Any],
    ) -> str | None:
        """Look whether a retraining has to start, and start it; return its name.

        Parameters
        ----------
        decide : callable
            Is asked twice where there is something to write, the second time with the mark locked.
        """

        def decided(connection: Connection, *, locked: bool) -> tuple[Mark | None, Decision]:
            mark = read_mark(connection, model, locked=locked)
            since = mark or Mark()
            arrivals = arrivals_since(connection, model, since, most_observations=most_observations)
            return mark, decide(mark, arrivals)

        with self._connections.reading() as connection:
            mark, decision = decided(connection, locked=False)
        if decision.trigger is None and decision.mark == mark:
            return None
        try:
            with self._connections.writing() as connection:
                mark, decision = decided(connection, locked=True)
                if decision.mark != mark:
                    write_mark(connection, model, decision.mark)
                if decision.trigger is None:
                    return None
                return enter(
                    connection, model, trigger=decision.trigger, why=decision.why, caller=caller,
                    settings=settings,
                )  # fmt: skip
        except ExistsError:
            return None  # another process was first

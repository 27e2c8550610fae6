"""Journals of searches for settings: entries are added at the end and never changed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, insert, select

from perfmodel.errors import StoreError
from perfmodel.store.sql.connections import ExistsError, now
from perfmodel.store.sql.shared_store import SharedStore
from perfmodel.store.sql.tables import TUNING_JOURNALS

#: Times that entries are added again because somebody else added some at the same moment.
_MOST_TRIES = 20

_TABLE = TUNING_JOURNALS.c


class TuningJournalStore(SharedStore):
    """Keeps what happened in each search, whoever searches."""

    def entries(self, study: str, *, first: int = 0) -> list[str]:
        """Return the entries of a search in their order, from one number on."""
        query = select(_TABLE.content).where(_TABLE.study == study, _TABLE.number >= first)
        return self._column(query.order_by(_TABLE.number))

    def append(self, study: str, entries: Sequence[str]) -> None:
        """Add entries to the end of a search, all of them or none."""
        for _ in range(_MOST_TRIES):
            try:
                return self._append(study, entries)
            except ExistsError:
                continue  # another host has added to it in between
        raise StoreError(
            f"The search {study} is written to by others without a pause; try again later."
        )

    def _append(self, study: str, entries: Sequence[str]) -> None:
        with self._connections.writing() as connection:
            last = select(func.max(_TABLE.number)).where(_TABLE.study == study)
            newest = connection.execute(last).scalar()
            first = 0 if newest is None else newest + 1
            rows = [
                {"study": study, "number": number, "content": content, "created_at": now()}
                for number, content in enumerate(entries, start=first)
            ]
            connection.execute(insert(TUNING_JOURNALS), rows)

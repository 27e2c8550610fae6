"""What retrainings say while they run, readable by every host."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import insert, select

from perfmodel.client.records import RetrainingLine
from perfmodel.store.sql.connections import now
from perfmodel.store.sql.shared_store import SharedStore, record_from
from perfmodel.store.sql.tables import RETRAINING_LINES

#: Longest line, characters; more is cut off.
LONGEST_LINE = 2_000


class RetrainingLogStore(SharedStore):
    """Keeps the lines of retrainings."""

    def add(self, retraining: str, attempt: int, texts: Sequence[str]) -> None:
        """Keep lines in their order."""
        said_at = now()
        rows = [
            {"retraining": retraining, "attempt": attempt, "text": text[:LONGEST_LINE],
             "at": said_at}
            for text in texts
        ]  # fmt: skip
        if rows:
            with self._connections.writing() as connection:
                connection.execute(insert(RETRAINING_LINES), rows)

    def lines(self, retraining: str, *, after: int = 0, limit: int = 1_000) -> list[RetrainingLine]:
        """Return lines, oldest first.

        Parameters
        ----------
        after : int
            Number of the last line that is known; 0: from the first.
        """
        table = RETRAINING_LINES.c
        query = (
            select(table.id.label("number"), table.attempt, table.text, table.at)
            .where(table.retraining == retraining, table.id > after)
            .order_by(table.id)
            .limit(limit)
        )
        return [record_from(RetrainingLine, row) for row in self._rows(query)]

"""The questions that were answered last, by whichever process of the service."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select

from perfmodel.store.sql.connections import Connections, now
from perfmodel.store.sql.shared_store import SharedStore
from perfmodel.store.sql.tables import ASKED_QUESTIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedQuestion:
    """One job on one placement, as somebody wrote them.

    Parameters
    ----------
    content : str
        ``{"job": ..., "placement": ...}`` as JSON, keys sorted.
    """

    content: str

    @property
    def key(self) -> str:
        """Equal for questions that are written alike, 32 hexadecimal digits."""
        return hashlib.sha256(self.content.encode()).hexdigest()[:32]


class AskedQuestionStore(SharedStore):
    """Keeps the questions that were asked last, each once.

    Parameters
    ----------
    most : int
        How many are kept.
    most_bytes : int
        What they may take together; the oldest go first.
    """

    def __init__(self, connections: Connections, *, most: int, most_bytes: int) -> None:
        super().__init__(connections)
        self._most = most
        self._most_bytes = most_bytes

    def put(self, questions: Sequence[AskedQuestion]) -> None:
        """Keep questions, the one that was asked last at the end, in the place of older ones."""
        last = {question.key: question for question in questions}
        if not last or not self._most:
            return
        with self._connections.writing() as connection:
            table = ASKED_QUESTIONS
            connection.execute(delete(table).where(table.c.key.in_(list(last))))
            connection.execute(insert(table), [_row(key, one) for key, one in last.items()])
            self._remove_oldest(connection)

    def count(self) -> int:
        """Return how many are kept."""
        (kept,) = self._column(select(func.count()).select_from(ASKED_QUESTIONS))
        return int(kept)

    def newest(self) -> list[AskedQuestion]:
        """Return those that are kept, the one that was asked last first."""
        query = select(ASKED_QUESTIONS.c.content).order_by(ASKED_QUESTIONS.c.id.desc())
        return [AskedQuestion(content=one) for one in self._column(query.limit(self._most))]

    def _remove_oldest(self, connection: Connection) -> None:
        table, taken = ASKED_QUESTIONS.c, 0
        sizes = select(table.id, table.size_bytes).order_by(table.id.desc())
        for position, row in enumerate(connection.execute(sizes)):
            taken += row.size_bytes
            if position >= self._most or taken > self._most_bytes:
                connection.execute(delete(ASKED_QUESTIONS).where(table.id <= row.id))
                return


def _row(key: str, question: AskedQuestion) -> dict[str, object]:
    return {
        "key": key,
        "content": question.content,
        "size_bytes": len(question.content.encode()),
        "asked_at": now(),
    }

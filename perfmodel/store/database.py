"""Graphs and captures in a SQL database, through SQLAlchemy.

Graphs are immutable: written once under their content hash, never changed.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from sqlalchemy import Table, insert, select

from perfmodel.errors import StoreError
from perfmodel.store.connections import Connections, ExistsError, now
from perfmodel.store.migrate import migrate
from perfmodel.store.tables import CAPTURES, GRAPHS, REGISTRATIONS

#: A tenth larger than by the level that is common, in 1 ms a graph instead of 3.
_LEVEL = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """How a registered graph was captured.

    Parameters
    ----------
    graph_hash : str
    mode : str
    batch_size : int
    tokens_per_sample : int or None
    """

    graph_hash: str
    mode: str
    batch_size: int
    tokens_per_sample: int | None = None


class Database:
    """Keeps graphs; may be shared by threads and processes.

    Parameters
    ----------
    url : str
        As :class:`~perfmodel.store.connections.Connections` takes it; the schema is brought to
        the newest.

    Raises
    ------
    StoreError
        Here and in every method: the database cannot be reached, read or written.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.connections = Connections(url)
        migrate(self.connections)

    def put_graph(self, graph_hash: str, canonical: bytes) -> bool:
        """Keep a graph.

        Returns
        -------
        bool
            False where it was there before.
        """
        return self._insert(
            GRAPHS, hash=graph_hash, canonical=zlib.compress(canonical, _LEVEL), created_at=now()
        )

    def graph(self, graph_hash: str) -> bytes | None:
        """Return the canonical JSON of a graph, or None."""
        with self.connections.reading() as connection:
            found = connection.execute(
                select(GRAPHS.c.canonical).where(GRAPHS.c.hash == graph_hash)
            ).scalar_one_or_none()
        try:
            return None if found is None else zlib.decompress(found)
        except zlib.error as error:
            raise StoreError(f"Graph {graph_hash} is damaged in {self.url}: {error}.") from error

    def register(self, registration: Registration) -> bool:
        """Keep how a graph was captured; the first registration of a graph stands.

        Returns
        -------
        bool
            False where it was there before.
        """
        return self._insert(
            REGISTRATIONS,
            hash=registration.graph_hash,
            mode=registration.mode,
            batch_size=registration.batch_size,
            tokens_per_sample=registration.tokens_per_sample,
            created_at=now(),
        )

    def registration(self, graph_hash: str) -> Registration | None:
        """Return how a registered graph was captured, or None."""
        with self.connections.reading() as connection:
            row = connection.execute(
                select(REGISTRATIONS).where(REGISTRATIONS.c.hash == graph_hash)
            ).one_or_none()
        if row is None:
            return None
        return Registration(
            graph_hash=row.hash,
            mode=row.mode,
            batch_size=row.batch_size,
            tokens_per_sample=row.tokens_per_sample,
        )

    def registered(self, *, limit: int = 1_000) -> list[str]:
        """Return the hashes of registered graphs, newest first."""
        query = select(REGISTRATIONS.c.hash).order_by(REGISTRATIONS.c.created_at.desc())
        with self.connections.reading() as connection:
            return list(connection.execute(query.limit(limit)).scalars())

    def put_capture(self, key: str, graph_hash: str, tokens_per_sample: int | None) -> bool:
        """Keep which graph a job has; False where that was known before."""
        return self._insert(
            CAPTURES,
            key=key,
            hash=graph_hash,
            tokens_per_sample=tokens_per_sample,
            created_at=now(),
        )

    def capture(self, key: str) -> tuple[str, int | None] | None:
        """Return graph hash and tokens per sample of a captured job, or None."""
        query = select(CAPTURES.c.hash, CAPTURES.c.tokens_per_sample).where(CAPTURES.c.key == key)
        with self.connections.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else (row.hash, row.tokens_per_sample)

    def close(self) -> None:
        """Give back every connection."""
        self.connections.close()

    def _insert(self, table: Table, **values: object) -> bool:
        try:
            with self.connections.writing() as connection:
                connection.execute(insert(table).values(**values))
        except ExistsError:
            return False
        return True

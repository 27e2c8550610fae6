"""Graphs and captures in a SQL database, through SQLAlchemy.

Graphs are immutable: written once under their content hash, never changed.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Insert, Row, Select, and_, delete, insert, select

from perfmodel.errors import StoreError
from perfmodel.store.sql.connections import Connections, ExistsError, now
from perfmodel.store.sql.migrate import migrate
from perfmodel.store.sql.shared_store import SharedStore, record_from
from perfmodel.store.sql.tables import CAPTURES, GRAPH_FACTS, GRAPHS, REGISTRATIONS

#: A tenth larger than by the level that is common, in 1 ms a graph instead of 3.
_LEVEL = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """How a registered graph was captured.

    Parameters
    ----------
    owner : str
        The key that registered it first; ``""`` is nobody.
    """

    graph_hash: str
    mode: str
    batch_size: int
    tokens_per_sample: int | None = None
    owner: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredGraph:
    """A graph as it lies in the database.

    Parameters
    ----------
    deflated : bytes
        Canonical JSON, from :func:`deflated`.
    tokens_per_sample : int or None
        Of the capture or registration that it belongs to.
    facts : bytes or None
        What answers need of it, worked out by one version of the code; None where there is none.
    """

    graph_hash: str
    deflated: bytes
    tokens_per_sample: int | None = None
    facts: bytes | None = None


def deflated(canonical: bytes) -> bytes:
    """Return canonical JSON as it is kept."""
    return zlib.compress(canonical, _LEVEL)


def inflated(content: bytes, graph_hash: str) -> bytes:
    """Return canonical JSON from what is kept.

    Raises
    ------
    StoreError
        It is damaged.
    """
    try:
        return zlib.decompress(content)
    except zlib.error as error:
        raise StoreError(f"Graph {graph_hash} is damaged: {error}.") from error


class Database(SharedStore):
    """Keeps graphs, and the connections of a process; may be shared by threads and processes.

    Parameters
    ----------
    url : str
        As :class:`~perfmodel.store.sql.connections.Connections` takes it; the schema is brought to
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
        super().__init__(self.connections)

    def put_graph(self, graph_hash: str, canonical: bytes) -> bool:
        """Keep a graph.

        Returns
        -------
        bool
            False where it was there before.
        """
        return self._insert(_graph_row(graph_hash, deflated(canonical)))

    def graph(self, graph_hash: str) -> bytes | None:
        """Return the canonical JSON of a graph, or None."""
        query = select(GRAPHS.c.canonical).where(GRAPHS.c.hash == graph_hash)
        return self._find(query, lambda row: inflated(row.canonical, graph_hash))

    def register(self, registration: Registration) -> bool:
        """Keep how a graph was captured; the first registration of a graph stands.

        Returns
        -------
        bool
            False where it was there before.
        """
        return self._insert(
            insert(REGISTRATIONS).values(
                hash=registration.graph_hash,
                mode=registration.mode,
                batch_size=registration.batch_size,
                tokens_per_sample=registration.tokens_per_sample,
                owner=registration.owner or None,
                created_at=now(),
            )
        )

    def registration(self, graph_hash: str) -> Registration | None:
        """Return how a registered graph was captured, or None."""
        query = select(REGISTRATIONS).where(REGISTRATIONS.c.hash == graph_hash)
        return self._find(query, _registration)

    def put_captured(self, key: str, step: StoredGraph, version: str) -> None:
        """Keep a captured graph with its facts, in one transaction where all of it is new."""
        rows = [
            _graph_row(step.graph_hash, step.deflated),
            _capture_row(key, step.graph_hash, step.tokens_per_sample),
        ]
        try:
            with self.connections.writing() as connection:
                for row in rows:
                    connection.execute(row)
                if step.facts is not None:
                    _replace_facts(connection, step.graph_hash, version, step.facts)
        except ExistsError:
            # Another job has the same graph, or another process captured the same job.
            for row in rows:
                self._insert(row)
            if step.facts is not None:
                self.put_facts(step.graph_hash, version, step.facts)

    def captured(self, key: str, version: str) -> StoredGraph | None:
        """Return the graph of a captured job, with its facts of one version; None without it."""
        columns = (CAPTURES.c.hash, CAPTURES.c.tokens_per_sample)
        query = _with_facts(columns, CAPTURES.c.hash, version).where(CAPTURES.c.key == key)
        return self._find(query, _stored_graph)

    def registered_graph(self, graph_hash: str, version: str) -> StoredGraph | None:
        """Return a registered graph, with its facts of one version; None without it."""
        columns = (REGISTRATIONS.c.hash, REGISTRATIONS.c.tokens_per_sample)
        query = _with_facts(columns, REGISTRATIONS.c.hash, version)
        return self._find(query.where(REGISTRATIONS.c.hash == graph_hash), _stored_graph)

    def put_facts(self, graph_hash: str, version: str, content: bytes) -> None:
        """Keep what answers need of a graph, in the place of what any version said before."""
        try:
            with self.connections.writing() as connection:
                _replace_facts(connection, graph_hash, version, content)
        except ExistsError:
            return  # another process was quicker, with the same

    def close(self) -> None:
        """Give back every connection."""
        self.connections.close()

    def _insert(self, row: Insert) -> bool:
        try:
            with self.connections.writing() as connection:
                connection.execute(row)
        except ExistsError:
            return False
        return True


def _registration(row: Row[Any]) -> Registration:
    return record_from(Registration, row, graph_hash=row.hash, owner=row.owner or "")


def _stored_graph(row: Row[Any]) -> StoredGraph:
    content = {"deflated": row.canonical, "facts": row.content}
    return record_from(StoredGraph, row, graph_hash=row.hash, **content)


def _graph_row(graph_hash: str, content: bytes) -> Insert:
    return insert(GRAPHS).values(hash=graph_hash, canonical=content, created_at=now())


def _capture_row(key: str, graph_hash: str, tokens_per_sample: int | None) -> Insert:
    return insert(CAPTURES).values(
        key=key, hash=graph_hash, tokens_per_sample=tokens_per_sample, created_at=now()
    )


def _replace_facts(connection: Connection, graph_hash: str, version: str, content: bytes) -> None:
    connection.execute(delete(GRAPH_FACTS).where(GRAPH_FACTS.c.hash == graph_hash))
    connection.execute(
        insert(GRAPH_FACTS).values(hash=graph_hash, version=version, content=content)
    )


def _with_facts(
    columns: tuple[Column[str], Column[int]], graph_hash: Column[str], version: str
) -> Select[tuple[str, int | None, bytes, bytes | None]]:
    """Return a query for columns, and the graph and the facts that lie under a hash among them."""
    table = graph_hash.table
    of_version = and_(GRAPH_FACTS.c.hash == graph_hash, GRAPH_FACTS.c.version == version)
    return select(*columns, GRAPHS.c.canonical, GRAPH_FACTS.c.content).select_from(
        table.join(GRAPHS, GRAPHS.c.hash == graph_hash).outerjoin(GRAPH_FACTS, of_version)
    )

"""Graphs and captures in a SQL database, through SQLAlchemy.

SQLite runs in WAL mode, so that reads go on while something is written. Graphs are immutable:
written once under their content hash, never changed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import (
    Column,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from perfmodel.errors import StoreError

METADATA = MetaData()

#: One graph as canonical JSON, deflated.
GRAPHS = Table(
    "graphs",
    METADATA,
    Column("hash", String(64), primary_key=True),
    Column("canonical", LargeBinary, nullable=False),
    Column("created_at", String(32), nullable=False),
)

#: What a client registered: how the graph was captured.
REGISTRATIONS = Table(
    "registrations",
    METADATA,
    Column("hash", String(64), primary_key=True),
    Column("mode", String(16), nullable=False),
    Column("batch_size", Integer, nullable=False),
    Column("tokens_per_sample", Integer),
    Column("created_at", String(32), nullable=False),
)

#: Jobs that were captured here, under a key that holds the versions of what captured them.
CAPTURES = Table(
    "captures",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("hash", String(64), nullable=False),
    Column("tokens_per_sample", Integer),
    Column("created_at", String(32), nullable=False),
)


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
        ``"sqlite:///perfmodel.db"``, ``"sqlite://"`` (in memory), or any other that SQLAlchemy
        takes.

    Raises
    ------
    StoreError
        Here and in every method: the database cannot be reached, read or written.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        with _translated(url):
            self._engine = _engine(url)
            _create_tables(self._engine)

    def put_graph(self, graph_hash: str, canonical: bytes) -> bool:
        """Keep a graph.

        Returns
        -------
        bool
            False where it was there before.
        """
        return self._insert(
            GRAPHS, hash=graph_hash, canonical=zlib.compress(canonical, 6), created_at=_now()
        )

    def graph(self, graph_hash: str) -> bytes | None:
        """Return the canonical JSON of a graph, or None."""
        with _translated(self.url), self._engine.connect() as connection:
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
            created_at=_now(),
        )

    def registration(self, graph_hash: str) -> Registration | None:
        """Return how a registered graph was captured, or None."""
        with _translated(self.url), self._engine.connect() as connection:
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
        with _translated(self.url), self._engine.connect() as connection:
            return list(connection.execute(query.limit(limit)).scalars())

    def put_capture(self, key: str, graph_hash: str, tokens_per_sample: int | None) -> bool:
        """Keep which graph a job has; False where that was known before."""
        return self._insert(
            CAPTURES,
            key=key,
            hash=graph_hash,
            tokens_per_sample=tokens_per_sample,
            created_at=_now(),
        )

    def capture(self, key: str) -> tuple[str, int | None] | None:
        """Return graph hash and tokens per sample of a captured job, or None."""
        query = select(CAPTURES.c.hash, CAPTURES.c.tokens_per_sample).where(CAPTURES.c.key == key)
        with _translated(self.url), self._engine.connect() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else (row.hash, row.tokens_per_sample)

    def close(self) -> None:
        """Give back every connection."""
        self._engine.dispose()

    def _insert(self, table: Table, **values: object) -> bool:
        try:
            with _translated(self.url), self._engine.begin() as connection:
                connection.execute(insert(table).values(**values))
        except _ExistsError:
            return False
        return True


class _ExistsError(Exception):
    """A row of that key is there already."""


@contextmanager
def _translated(url: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise _ExistsError from error
    except (SQLAlchemyError, OSError, ImportError) as error:
        shown = make_url(url).render_as_string(hide_password=True) if "://" in url else url
        raise StoreError(
            f"The database {shown} cannot be used: {error}. Check the URL, the permissions and "
            "the free space."
        ) from error


def _create_tables(engine: Engine) -> None:
    try:
        METADATA.create_all(engine)
    except OperationalError:
        # Another worker may have created them between the look and the leap; look again.
        METADATA.create_all(engine)


def _engine(url: str) -> Engine:
    if make_url(url).get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    if make_url(url).database in (None, "", ":memory:"):
        engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        engine = create_engine(url, connect_args={"timeout": 10})
        event.listen(engine, "connect", _use_wal)
    return engine


def _use_wal(connection: object, record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode=WAL")
    # In WAL mode NORMAL loses no committed row when the process dies, only when the power does.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

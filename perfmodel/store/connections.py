"""Connections to the database: SQLite in WAL mode, or PostgreSQL through psycopg 3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from perfmodel.errors import StoreError

#: Seconds that SQLite waits for another writer.
_LOCK_TIMEOUT_S = 10
#: Seconds after which PostgreSQL is taken to be out of reach; libpq knows no shorter time.
_CONNECT_TIMEOUT_S = 2


class ExistsError(Exception):
    """A row of that key is there already, or what is written breaks another rule of the table."""


class Connections:
    """Opens transactions; may be shared by threads.

    Parameters
    ----------
    url : str
        ``"sqlite:///perfmodel.db"``, ``"sqlite://"`` (in memory) or ``"postgresql://..."``.

    Raises
    ------
    StoreError
        Here and in every method: the database cannot be reached, read or written.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        with self._translated():
            self._engine = _engine(make_url(url))
        # Whoever will write says so first: a reader that turns into a writer can find SQLite
        # locked by another, and no waiting helps it.
        self._writer = self._engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is an SQLite file or in memory."""
        return self._engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a transaction that only reads."""
        with self._translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that is on disk when the block has ended.

        Raises
        ------
        ExistsError
            A row of that key is there already.
        """
        with self._translated(), self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Give back every connection."""
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            raise ExistsError(str(error)) from error
        except (SQLAlchemyError, OSError, ImportError) as error:
            # What the driver said, without the statement: that is nobody's business outside.
            said = str(getattr(error, "orig", None) or error).strip()
            raise StoreError(
                f"The database {shown_url(self.url)} cannot be used: {said}. Check the URL, the "
                "permissions and the free space."
            ) from error


def shown_url(url: str) -> str:
    """Return a URL as it may be shown: without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


def now() -> str:
    """Return the time as it is written in every table: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    return create_engine(
        url,
        pool_pre_ping=True,
        pool_timeout=_CONNECT_TIMEOUT_S,
        connect_args={"connect_timeout": _CONNECT_TIMEOUT_S}
        if url.drivername == "postgresql+psycopg"
        else {},
    )


def _sqlite(url: URL) -> Engine:
    if url.database in (None, "", ":memory:"):
        # What is in memory lives in its one connection, which threads take in turn.
        engine = create_engine(
            url,
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
            connect_args={"check_same_thread": False},
        )
    else:
        engine = create_engine(url, connect_args={"timeout": _LOCK_TIMEOUT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: object, record: object) -> None:
    # The driver would begin transactions by itself, but not around changes of the schema.
    connection.isolation_level = None  # type: ignore[attr-defined]
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode=WAL")
    # FULL: what was committed outlives a power failure, not only the death of the process.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    word = connection.get_execution_options().get("sqlite_begin", "BEGIN")
    connection.exec_driver_sql(word)

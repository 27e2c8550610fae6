"""Connections to the database: SQLite in WAL mode, or PostgreSQL through psycopg 3.

One that does not answer is not asked again and again.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import (
    ArgumentError,
    DisconnectionError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import QueuePool

from perfmodel.errors import StoreError
from perfmodel.store.sql.watchdog import Socketed, Watchdog


class Breaker:
    """Refuses at once for a while after something failed; may be shared by threads.

    After the pause one caller tries; until it knows more, all others are refused.

    Parameters
    ----------
    trial_s : float
        Time that a trial takes at most, seconds; then another may try.

    Examples
    --------
    >>> breaker = Breaker(pause_s=1.0, trial_s=5.0, clock=lambda: 0.0)
    >>> breaker.check()
    >>> breaker.failed()
    >>> breaker.check()
    Traceback (most recent call last):
    perfmodel.errors.StoreError: The database did not answer lately. It is tried again in 1 s.
    """

    def __init__(
        self, *, pause_s: float, trial_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pause_s = pause_s
        self._trial_s = trial_s
        self._clock = clock
        self._lock = threading.Lock()
        self._closed_until: float | None = None

    def check(self) -> None:
        """Let a caller try, or not.

        Raises
        ------
        StoreError
            It failed lately, or somebody else is trying.
        """
        if self._closed_until is None:
            return
        with self._lock:
            now = self._clock()
            if self._closed_until is not None and now < self._closed_until:
                raise StoreError(
                    f"The database did not answer lately. It is tried again in {self._pause_s:g} s."
                )
            if self._closed_until is not None:
                self._closed_until = now + self._trial_s

    def failed(self) -> None:
        """Note that it did not answer."""
        with self._lock:
            self._closed_until = self._clock() + self._pause_s

    def worked(self) -> None:
        """Note that it answered."""
        if self._closed_until is not None:
            with self._lock:
                self._closed_until = None


#: Seconds that SQLite waits for another writer.
_LOCK_TIMEOUT_S = 10
#: Seconds after which PostgreSQL is taken to be out of reach; libpq knows no shorter time.
_CONNECT_TIMEOUT_S = 2
#: Seconds that a connection may take to show that it is still there.
_PING_S = 2.0
#: Seconds that a transaction may take, seen from here: one that reads stands between a caller and
#: an answer.
_READ_S = 4.0
_WRITE_S = 8.0
#: Seconds for which PostgreSQL is left alone after it did not answer.
_PAUSE_S = 1.0
#: What PostgreSQL itself ends, milliseconds: statements, waits for a lock, forgotten transactions.
_SERVER_LIMITS = {
    "statement_timeout": 5_000,
    "lock_timeout": 3_000,
    "idle_in_transaction_session_timeout": 30_000,
}
#: Connections of one process, at rest and at most; those that would be one too many wait.
_POOL, _OVERFLOW = 4, 6


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
        self._watchdog = Watchdog()
        self._breaker = Breaker(pause_s=_PAUSE_S, trial_s=2 * _CONNECT_TIMEOUT_S + _WRITE_S)
        try:
            self._engine = _engine(make_url(url))
        except ImportError as error:
            raise StoreError(
                f"The database {shown_url(url)} cannot be used: {error}. It is SQLite "
                "(sqlite:///perfmodel.db), or PostgreSQL (postgresql://user@host/perfmodel) with "
                "pip install 'perfmodel[postgres]'."
            ) from error
        except SQLAlchemyError as error:
            raise self._problem(error) from error
        #: Whether the database is an SQLite file or in memory.
        self.is_sqlite = self._engine.dialect.name == "sqlite"
        # Whoever will write says so first: a reader that turns into a writer can find SQLite
        # locked by another, and no waiting helps it.
        self._writer = self._engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")
        if not self.is_sqlite:
            event.listen(self._engine, "checkout", self._ping)

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a transaction that only reads."""
        return self._opened(self._engine, _READ_S)

    def writing(self, *, limit_s: float = _WRITE_S) -> AbstractContextManager[Connection]:
        """Open a transaction that is on disk when the block has ended.

        Parameters
        ----------
        limit_s : float
            How long PostgreSQL may be waited for in all, seconds.

        Raises
        ------
        ExistsError
            A row of that key is there already.
        """
        return self._opened(self._writer, limit_s)

    def close(self) -> None:
        """Give back every connection."""
        self._engine.dispose()
        self._watchdog.close()

    @contextmanager
    def _opened(self, engine: Engine, limit_s: float) -> Iterator[Connection]:
        """Open a transaction; what goes wrong with a server is noted, and told in other words."""
        try:
            if self.is_sqlite:
                with engine.begin() as connection:
                    yield connection
                return
            self._breaker.check()
            with engine.connect() as connection:
                held = _socketed(connection.connection.driver_connection)
                with self._watchdog.limiting(held, limit_s), connection.begin():
                    yield connection
                self._breaker.worked()
        except IntegrityError as error:
            raise ExistsError(str(error)) from error
        except (SQLAlchemyError, OSError, ImportError) as error:
            if _was_lost(error) and not self.is_sqlite:
                self._breaker.failed()
            raise self._problem(error) from error

    def _ping(self, connection: object, record: object, proxy: object) -> None:
        """Find out whether a connection of the pool still answers; else another takes its place."""
        try:
            with self._watchdog.limiting(_socketed(connection), _PING_S):
                self._engine.dialect.do_ping(cast(DBAPIConnection, connection))
        except self._engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError(str(error)) from error

    def _problem(self, error: Exception) -> StoreError:
        # What the driver said, without the statement: that is nobody's business outside.
        said = str(getattr(error, "orig", None) or error).strip()
        return StoreError(
            f"The database {shown_url(self.url)} cannot be used: {said}. Check the URL, the "
            "permissions and the free space."
        )


def shown_url(url: str) -> str:
    """Return a URL as it may be shown: without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


def is_in_memory(url: str) -> bool:
    """Tell whether a database lives in this process alone, so that no other can see it."""
    return url in ("sqlite://", "sqlite:///:memory:")


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
        pool_size=_POOL,
        max_overflow=_OVERFLOW,
        pool_timeout=_CONNECT_TIMEOUT_S,
        connect_args={
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "options": " ".join(
                [
                    *(f"-c {name}={limit}" for name, limit in _SERVER_LIMITS.items()),
                    # Behind them, so that what the URL says counts.
                    *([str(url.query["options"])] if "options" in url.query else []),
                ]
            ),
        }
        if url.drivername == "postgresql+psycopg"
        else {},
    )


def _was_lost(error: BaseException) -> bool:
    """Tell whether a server did not answer; one that refused or ended a statement did."""
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    # Class 08: connections; 57P: the server goes down.
    return isinstance(error, OperationalError | InterfaceError | DisconnectionError) and (
        state is None or str(state).startswith(("08", "57P"))
    )


def _socketed(connection: object) -> Socketed:
    return cast(Socketed, connection)


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
    _write_ahead(cursor)
    # FULL: what was committed outlives a power failure, not only the death of the process.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Keep a log written ahead; SQLite lets nobody wait who changes to it beside others."""
    until_s = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until_s:
                raise
        time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    word = connection.get_execution_options().get("sqlite_begin", "BEGIN")
    connection.exec_driver_sql(word)

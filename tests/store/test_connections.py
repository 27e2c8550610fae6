from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from made_up_observations import stored_observation
from postgresql import PostgresqlServer
from sqlalchemy import text

from perfmodel.errors import StoreError
from perfmodel.store.sql import connections as connections_module
from perfmodel.store.sql.connections import Connections, shown_url
from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_records import Outcome
from perfmodel.store.state.observations import ObservationStore


def test_a_block_that_fails_leaves_nothing(migrated_url: str) -> None:
    connections = Connections(migrated_url)
    with pytest.raises(ZeroDivisionError), connections.writing() as connection:
        connection.execute(text("INSERT INTO revisions VALUES ('a', 1)"))
        _ = 1 / 0
    with connections.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM revisions")).scalar_one() == 0
    connections.close()


def test_sqlite_syncs_each_commit_beside_its_readers(tmp_path: Path) -> None:
    connections = Connections(f"sqlite:///{tmp_path}/a.db")
    with connections.reading() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 2  # FULL
    connections.close()


def test_who_opens_a_new_file_beside_another_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The other one is where a process stands that has just made the file: it holds the lock of a
    # writer, and the log is not written ahead yet.
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE marks (mark)")
    other.execute("INSERT INTO marks VALUES ('made')")
    waits: list[float] = []

    def until_the_other_is_done(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            other.execute("COMMIT")
            other.close()

    clock = SimpleNamespace(sleep=until_the_other_is_done, monotonic=time.monotonic)
    monkeypatch.setattr(connections_module, "time", clock)
    connections = Connections(f"sqlite:///{tmp_path}/a.db")
    with connections.reading() as connection:
        assert connection.execute(text("SELECT mark FROM marks")).scalar_one() == "made"
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
    assert len(waits) == 3
    connections.close()


def test_a_new_file_that_another_never_leaves_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    monkeypatch.setattr(connections_module, "_LOCK_TIMEOUT_S", 0.0)
    connections = Connections(f"sqlite:///{tmp_path}/a.db")
    with pytest.raises(StoreError, match="locked"), connections.reading():
        pass
    other.close()
    connections.close()


def test_a_reader_of_sqlite_sees_one_state_while_others_write(migrated_file: Path) -> None:
    reader, writer = (Connections(f"sqlite:///{migrated_file}") for _ in range(2))
    count = text("SELECT count(*) FROM revisions")
    with reader.reading() as connection:
        assert connection.execute(count).scalar_one() == 0
        with writer.writing() as other:
            other.execute(text("INSERT INTO revisions VALUES ('a', 1)"))
        assert connection.execute(count).scalar_one() == 0
    with writer.writing() as other:
        other.execute(text("DELETE FROM revisions"))  # the file is copied by other tests
    reader.close()
    writer.close()


def test_lost_connections_are_made_again(postgresql: PostgresqlServer) -> None:
    # As after a restart of the server.
    import psycopg

    url = postgresql.migrated_database()
    database = Database(url)
    store = ObservationStore(database.connections)
    assert store.add([stored_observation("1")]) == [Outcome.ADDED]
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert store.add([stored_observation("2")]) == [Outcome.ADDED]
    assert [seen.key for seen in store.counting("a")] == ["1", "2"]
    database.close()


def test_a_server_that_is_away_is_an_error_without_password_or_statement() -> None:
    url = "postgresql://user:secret@/nowhere?host=/nowhere/at/all"
    with pytest.raises(StoreError, match="cannot be used") as caught:
        Database(url)
    assert "secret" not in str(caught.value)
    assert "SELECT" not in str(caught.value)


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"no database at all, but long enough to have a header" * 10)
    with pytest.raises(StoreError, match="not a database"):
        Database(f"sqlite:///{path}")


def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    database = Database(f"sqlite:///{path}")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    release.start()
    assert database.put_graph("ab", b"content")
    release.join()
    other.close()
    database.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://user:secret@host/name", "postgresql://user:***@host/name"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("nonsense", "nonsense"),
    ],
)
def test_urls_are_shown_without_passwords(url: str, shown: str) -> None:
    assert shown_url(url) == shown

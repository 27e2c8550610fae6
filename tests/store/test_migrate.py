from __future__ import annotations

import logging
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from made_up_observations import stored_observation
from sqlalchemy import text

from perfmodel.errors import StoreError
from perfmodel.store.sql import migrate as migration
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.migrate import HEAD, migrate, revision_of, upgrade
from perfmodel.store.sql.tables import METADATA
from perfmodel.store.state.database import Database, StoredGraph, deflated
from perfmodel.store.state.graph_list import GraphList
from perfmodel.store.state.observation_records import Outcome
from perfmodel.store.state.observations import ObservationStore

SCRIPTS = Path(migration.__file__).parent / "migrations"


def test_the_head_is_the_newest_script() -> None:
    assert (
        ScriptDirectory(str(SCRIPTS), recursive_version_locations=True).get_current_head() == HEAD
    )


def test_migrations_make_the_tables_that_the_code_uses(database_url: str) -> None:
    connections = Connections(database_url)
    migrate(connections)
    with connections.reading() as connection:
        assert revision_of(connection) == HEAD
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    connections.close()


def test_a_database_from_before_migrations_keeps_its_graphs(tmp_path: Path) -> None:
    # As create_all made it before there were migrations.
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.execute(
        "CREATE TABLE graphs (hash VARCHAR(64) NOT NULL PRIMARY KEY, canonical BLOB NOT NULL, "
        "created_at VARCHAR(32) NOT NULL)"
    )
    old.execute("INSERT INTO graphs VALUES ('ab', ?, '2026')", [zlib.compress(b"content")])
    old.commit()
    old.close()
    database = Database(f"sqlite:///{path}")
    assert database.graph("ab") == b"content"
    database.put_captured("key", StoredGraph(graph_hash="ab", deflated=deflated(b"content")), "one")
    assert database.captured("key", "one") is not None


def test_each_migration_goes_on_from_the_one_before(database_url: str) -> None:
    connections = Connections(database_url)
    for revision in [f"{number:04}" for number in range(1, int(HEAD) + 1)]:
        with connections.writing() as connection:
            upgrade(connection, revision)
            assert revision_of(connection) == revision
    connections.close()


def test_registrations_from_before_are_listed_in_their_order(database_url: str) -> None:
    connections = Connections(database_url)
    with connections.writing() as connection:
        upgrade(connection, "0002")
        for graph, day in (("b", "02"), ("a", "01"), ("c", "03")):
            connection.execute(
                text("INSERT INTO registrations VALUES (:graph, 'training', 8, NULL, :day)"),
                {"graph": graph, "day": f"2026-01-{day}"},
            )
    migrate(connections)
    graphs = GraphList(connections)
    page = graphs.page(limit=2)
    assert [one.graph_hash for one in page.items] == ["c", "b"]
    assert [one.facts for one in graphs.page(cursor=page.next_cursor).items] == [None]
    found = graphs.find("a")
    assert found is not None and (found.mode, found.batch_size) == ("training", 8)
    connections.close()


def test_observations_from_before_have_no_reporter(database_url: str) -> None:
    connections = Connections(database_url)
    with connections.writing() as connection:
        upgrade(connection, "0004")
        for key in ("1", "2"):
            connection.execute(
                text(
                    "INSERT INTO observations (family, key, content_hash, job_ref, placement, "
                    "batch_size, accumulation_steps, step_time_s, state, revision, received_at) "
                    "VALUES ('a', :key, 'h', 'r', '\"T4\"', 8, 1, 0.125, 'accepted', 1, '2026')"
                ),
                {"key": key},
            )
    migrate(connections)
    store = ObservationStore(connections)
    found = store.page().items
    assert [(one.key, one.reporter, one.step_time_s) for one in found] == [
        ("2", "", 0.125), ("1", "", 0.125),
    ]  # fmt: skip
    # Numbers of rows go on where they were.
    assert store.add([stored_observation("1"), stored_observation("1", reporter="one")]) == [
        Outcome.CONFLICT, Outcome.ADDED,
    ]  # fmt: skip
    assert [one.reporter for one in store.page().items] == ["one", "", ""]
    connections.close()


def test_a_migration_that_fails_leaves_nothing(database_url: str) -> None:
    connections = Connections(database_url)

    with pytest.raises(ZeroDivisionError), connections.writing() as connection:
        upgrade(connection)
        _ = 1 / 0
    with connections.reading() as connection:
        assert revision_of(connection) is None
    connections.close()


def test_hosts_that_start_together_migrate_once(database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        databases = list(pool.map(Database, [database_url] * 4))
    assert [database.put_graph(f"{i}", b"x") for i, database in enumerate(databases)] == [True] * 4
    for database in databases:
        database.close()


def test_a_newer_database_is_refused(database_url: str) -> None:
    connections = Connections(database_url)
    migrate(connections)
    with connections.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="newer"):
        migrate(connections)
    connections.close()


def test_an_upgrade_is_said_and_a_new_database_is_not(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "perfmodel.store.sql.migrate")
    connections = Connections(database_url)
    with connections.writing() as connection:
        upgrade(connection, "0012")
    migrate(connections)
    migrate(connections)
    (said,) = [one.getMessage() for one in caplog.records if one.name.endswith("sql.migrate")]
    assert f"from schema 0012 to {HEAD}" in said
    connections.close()

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perfmodel.errors import StoreError
from perfmodel.store.state.database import Database, Registration, StoredGraph, deflated, inflated


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "graphs.db"


@pytest.fixture(params=["file", "memory", "postgresql"])
def database(request: pytest.FixtureRequest, path: Path) -> Iterator[Database]:
    urls = {"file": f"sqlite:///{path}", "memory": "sqlite://"}
    if request.param == "postgresql":
        urls["postgresql"] = request.getfixturevalue("postgresql").migrated_database()
    database = Database(urls[request.param])
    yield database
    database.close()


def test_a_graph_is_kept_once(database: Database) -> None:
    assert database.graph("ab") is None
    assert database.put_graph("ab", b"content")
    assert not database.put_graph("ab", b"content")
    assert database.graph("ab") == b"content"


def test_the_first_registration_stands(database: Database) -> None:
    first = Registration(graph_hash="ab", mode="training", batch_size=8, tokens_per_sample=128)
    assert database.registration("ab") is None
    assert database.register(first)
    assert not database.register(Registration(graph_hash="ab", mode="inference", batch_size=1))
    assert database.registration("ab") == first


def _stored(graph_hash: str, facts: bytes | None = None) -> StoredGraph:
    content = deflated(b"content of " + graph_hash.encode())
    return StoredGraph(graph_hash=graph_hash, deflated=content, tokens_per_sample=128, facts=facts)


def test_a_capture_is_kept_with_its_graph_and_facts(database: Database) -> None:
    database.put_captured("key", _stored("ab", b"facts"), "one")
    found = database.captured("key", "one")
    assert found == _stored("ab", b"facts")
    assert found is not None and inflated(found.deflated, "ab") == database.graph("ab")
    assert database.captured("other", "one") is None
    # Another version finds the graph, and its facts in the place of those that were there.
    assert database.captured("key", "two") == _stored("ab")
    database.put_facts("ab", "two", b"others")
    assert database.captured("key", "two") == _stored("ab", b"others")
    assert database.captured("key", "one") == _stored("ab")


def test_the_first_capture_of_a_job_stands(database: Database) -> None:
    assert database.captured("key", "one") is None
    database.put_captured("key", _stored("ab"), "one")
    database.put_captured("key", _stored("cd"), "one")
    assert database.captured("key", "one") == _stored("ab")


def test_jobs_of_one_graph_share_it(database: Database) -> None:
    database.put_captured("key", _stored("ab", b"facts"), "one")
    database.put_captured("other", _stored("ab", b"facts"), "one")
    database.put_captured("key", _stored("ab"), "one")
    for key in ("key", "other"):
        assert database.captured(key, "one") == _stored("ab", b"facts")


def test_a_registered_graph_is_found_with_its_facts(database: Database) -> None:
    assert database.registered_graph("ab", "one") is None
    database.put_graph("ab", b"content of ab")
    registration = Registration(
        graph_hash="ab", mode="training", batch_size=8, tokens_per_sample=128
    )
    assert database.registered_graph("ab", "one") is None
    database.register(registration)
    assert database.registered_graph("ab", "one") == _stored("ab")
    database.put_facts("ab", "one", b"facts")
    assert database.registered_graph("ab", "one") == _stored("ab", b"facts")


def test_threads_keep_the_same_facts(path: Path) -> None:
    database = Database(f"sqlite:///{path}")
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(lambda i: database.put_captured(f"{i}", _stored("ab", b"x"), "one"), range(40))
        )
    assert all(database.captured(f"{i}", "one") == _stored("ab", b"x") for i in range(40))


def test_what_was_written_is_there_for_the_next_process(path: Path) -> None:
    database = Database(f"sqlite:///{path}")
    database.put_graph("ab", b"content")
    database.close()
    assert Database(f"sqlite:///{path}").graph("ab") == b"content"


def test_threads_write_together(path: Path) -> None:
    database = Database(f"sqlite:///{path}")
    with ThreadPoolExecutor(8) as pool:
        written = list(pool.map(lambda i: database.put_graph(f"{i % 20}", b"x"), range(100)))
    assert sum(written) == 20


def test_reads_go_on_while_another_process_writes(path: Path) -> None:
    database = Database(f"sqlite:///{path}")
    database.put_graph("ab", b"content")
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    assert database.graph("ab") == b"content"
    writer.execute("ROLLBACK")
    writer.close()


def test_a_damaged_graph_is_named(path: Path) -> None:
    database = Database(f"sqlite:///{path}")
    database.put_graph("ab", b"content")
    other = sqlite3.connect(path)
    other.execute("UPDATE graphs SET canonical = x'00'")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="ab is damaged"):
        database.graph("ab")


@pytest.mark.parametrize("url", ["nonsense", "nodialect:///x", "sqlite:////nowhere/at/all.db"])
def test_a_database_that_cannot_be_used_says_so(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be used"):
        Database(url)


def test_a_read_only_database_still_answers(path: Path) -> None:
    Database(f"sqlite:///{path}").put_graph("ab", b"content")
    database = Database(f"sqlite:///file:{path}?mode=ro&uri=true")
    with pytest.raises(StoreError):
        database.put_graph("cd", b"content")
    assert database.graph("ab") == b"content"


def _open_and_write(url: str, number: int) -> bool:
    return Database(url).put_graph(str(number), b"content")


def test_workers_that_start_together_share_a_new_database(path: Path) -> None:
    url = f"sqlite:///{path}"
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda number: _open_and_write(url, number), range(8)))


def test_a_password_is_never_shown() -> None:
    with pytest.raises(StoreError) as caught:
        Database("nodialect://user:secret@host/name")
    assert "secret" not in str(caught.value)

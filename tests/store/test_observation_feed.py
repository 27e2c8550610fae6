from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from made_up_observations import stored_job, stored_observation

from perfmodel.errors import StoreError
from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_feed import ObservationFeed
from perfmodel.store.state.observation_records import StoredObservation
from perfmodel.store.state.observations import ObservationStore


def keys(stored: Sequence[StoredObservation]) -> tuple[str, ...]:
    return tuple(seen.key for seen in stored)


@pytest.fixture
def open_store(migrated_url: str) -> Iterator[Callable[[], ObservationStore]]:
    """Return what opens the database as another process would."""
    databases: list[Database] = []

    def opened() -> ObservationStore:
        databases.append(Database(migrated_url))
        return ObservationStore(databases[-1].connections)

    yield opened
    for database in databases:
        database.close()


@pytest.fixture
def feed(open_store: Callable[[], ObservationStore]) -> Iterator[ObservationFeed[str]]:
    # Polls only when it is told to.
    feed = ObservationFeed(open_store(), keys, poll_s=3_600)
    yield feed
    feed.close()


def test_what_others_add_is_seen_at_the_next_poll(
    feed: ObservationFeed[str], open_store: Callable[[], ObservationStore]
) -> None:
    other = open_store()
    other.add([stored_observation("1")])
    assert feed.known("a") is None
    assert feed.of("a") == feed.known("a") == ("1",)
    other.add([stored_observation("2")])
    assert feed.of("a") == ("1",)  # from memory
    feed.poll()
    assert feed.known("a") is None
    assert feed.of("a") == ("1", "2")


def test_families_that_did_not_change_are_not_read_again(
    feed: ObservationFeed[str], open_store: Callable[[], ObservationStore]
) -> None:
    other = open_store()
    other.add([stored_observation("1")])
    before = feed.of("a")
    assert feed.of("b") == ()
    other.add([stored_observation("2", job=stored_job("b"))])
    feed.poll()
    assert feed.known("a") is before
    assert feed.of("b") == ("2",)


def test_what_is_quarantined_leaves_the_same_object(
    feed: ObservationFeed[str], open_store: Callable[[], ObservationStore]
) -> None:
    other = open_store()
    other.add([stored_observation("1")])
    before = feed.of("a")
    other.add([stored_observation("2", reason="too fast")])
    feed.poll()
    assert feed.of("a") is before


def test_what_is_forgotten_while_it_is_read_is_not_kept(
    open_store: Callable[[], ObservationStore],
) -> None:
    store = open_store()
    store.add([stored_observation("1")])

    def read(stored: Sequence[StoredObservation]) -> tuple[str, ...]:
        feed.forget(["a"])  # somebody adds one between the reading and the keeping
        return keys(stored)

    feed: ObservationFeed[str] = ObservationFeed(store, read, poll_s=3_600)
    assert feed.of("a") == ("1",)
    assert feed.known("a") is None
    feed.close()


def test_a_feed_polls_by_itself(open_store: Callable[[], ObservationStore]) -> None:
    feed = ObservationFeed(open_store(), keys, poll_s=0.02)
    assert feed.of("a") == ()
    open_store().add([stored_observation("1")])
    deadline = time.monotonic() + 60
    while feed.of("a") == () and time.monotonic() < deadline:
        time.sleep(0.01)
    assert feed.of("a") == ("1",)
    feed.close()


def test_answers_go_on_without_the_database(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/state.db")
    store = ObservationStore(database.connections)
    store.add([stored_observation("1")])
    feed = ObservationFeed(store, keys, poll_s=3_600)
    assert feed.of("a") == ("1",)
    with database.connections.writing() as connection:
        for table in ("observations", "revisions"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    feed.forget(["a"])
    assert feed.of("a") == ("1",)
    assert feed.of("never asked before") == ()
    with pytest.raises(StoreError):
        feed.poll()
    feed.close()
    database.close()

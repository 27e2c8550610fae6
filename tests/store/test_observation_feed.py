from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from made_up_observations import stored_job, stored_observation
from waiting import until

from perfmodel.errors import StoreError
from perfmodel.store.state import observation_feed
from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_feed import ObservationFeed
from perfmodel.store.state.observation_records import (
    ObservationFilter,
    ObservationState,
    StoredObservation,
)
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


def test_what_others_take_back_is_seen_at_the_next_poll(
    feed: ObservationFeed[str], open_store: Callable[[], ObservationStore]
) -> None:
    other = open_store()
    other.add([stored_observation("1"), stored_observation("2")])
    other.add([stored_observation("3", job=stored_job("b"))])
    of_b = feed.of("b")
    assert (feed.of("a"), feed.of(None)) == (("1", "2"), ("1", "2", "3"))
    assert other.remove(ObservationFilter(key="1")) == 1
    assert (feed.of("a"), feed.of(None)) == (("1", "2"), ("1", "2", "3"))  # from memory
    feed.poll()
    assert feed.taken_back == 1
    assert feed.known(None) is None
    assert (feed.of("a"), feed.of(None)) == (("2",), ("2", "3"))
    assert feed.of("b") is of_b
    other.move(
        ObservationFilter(key="2"), ObservationState.EXCLUDED, out_of=[ObservationState.ACCEPTED]
    )
    feed.poll()
    assert (feed.of("a"), feed.of(None)) == ((), ("3",))
    before = feed.of(None)
    feed.poll()
    assert feed.known(None) is before


def test_what_is_taken_back_waits_for_nothing(
    feed: ObservationFeed[str], open_store: Callable[[], ObservationStore]
) -> None:
    store = open_store()
    store.add([stored_observation("1"), stored_observation("2")])
    assert feed.of(None) == ("1", "2")
    # Just read: what is added waits for a second to pass.
    store.add([stored_observation("3")])
    feed.forget(["a"])
    assert feed.of(None) == ("1", "2")
    store.remove(ObservationFilter(key="1"))
    feed.forget_all()
    assert feed.of(None) == ("2", "3")


def test_while_one_reads_what_was_added_the_others_go_on(
    open_store: Callable[[], ObservationStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation_feed, "EVERY_S", 0.0)
    store = open_store()
    store.add([stored_observation("1")])
    meanwhile: list[tuple[str, ...] | None] = []

    def read(stored: Sequence[StoredObservation]) -> tuple[str, ...]:
        meanwhile.append(feed.known(None))
        return keys(stored)

    feed: ObservationFeed[str] = ObservationFeed(store, read, poll_s=3_600)
    assert feed.of(None) == ("1",)
    store.add([stored_observation("2")])
    feed.forget(["a"])
    assert feed.known(None) is None
    assert feed.of(None) == ("1", "2")
    store.add([stored_observation("3")])
    store.remove(ObservationFilter(key="1"))
    feed.forget_all()
    assert feed.of(None) == ("2", "3")
    # Nothing was known at first, and with what was taken back nobody goes on.
    assert meanwhile == [None, ("1",), None]
    feed.close()


def test_what_was_read_before_stays_the_same_object(
    open_store: Callable[[], ObservationStore],
) -> None:
    store = open_store()
    feed: ObservationFeed[object] = ObservationFeed(
        store, lambda stored: tuple(object() for _ in stored), poll_s=3_600
    )
    store.add([stored_observation("1"), stored_observation("2")])
    first = feed.of(None)
    store.add([stored_observation("3")])
    store.remove(ObservationFilter(key="1"))
    feed.forget_all()
    second = feed.of(None)
    assert len(second) == 2 and second[0] is first[1]
    feed.forget_all()
    assert feed.of(None) is second
    feed.close()


def test_every_process_makes_the_same_choice_whatever_came_when(
    open_store: Callable[[], ObservationStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation_feed, "MOST_OF_ALL", 12)
    monkeypatch.setattr(observation_feed, "EVERY_S", 0.0)
    drawn = random.Random(3)
    store = open_store()
    old: ObservationFeed[str] = ObservationFeed(store, keys, poll_s=3_600)
    for number in range(40):
        reporter = drawn.choice(["loud", "loud", "loud", "quiet", "rare"])
        store.add(
            [
                stored_observation(
                    f"{number} {one}", placement=f'"{drawn.randrange(8)}xT4"', reporter=reporter
                )
                for one in range(drawn.randrange(1, 6))
            ]
        )
        old.forget(["a"])
        if drawn.random() < 0.2:
            store.remove(ObservationFilter(key=f"{drawn.randrange(number + 1)} 0"))
            old.forget_all()
        new: ObservationFeed[str] = ObservationFeed(store, keys, poll_s=3_600)
        assert old.of(None) == new.of(None)
        assert set(old.of("a")) == set(new.of("a"))
        new.close()
    old.close()


def test_a_feed_polls_by_itself(open_store: Callable[[], ObservationStore]) -> None:
    feed = ObservationFeed(open_store(), keys, poll_s=0.02)
    assert feed.of("a") == ()
    open_store().add([stored_observation("1")])
    until(lambda: feed.of("a") == ("1",))
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
    assert feed.of(None) == ()
    # It is not asked again at once, even where something was taken back.
    feed.forget_all()
    assert feed.known(None) == ()
    with pytest.raises(StoreError):
        feed.poll()
    feed.close()
    database.close()

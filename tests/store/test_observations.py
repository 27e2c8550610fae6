from __future__ import annotations

from collections.abc import Iterator

import pytest
from made_up_observations import stored_job, stored_observation

from perfmodel.store.state.database import Database
from perfmodel.store.state.jobs import JobStore
from perfmodel.store.state.observations import ObservationState, ObservationStore, Outcome


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    database = Database(migrated_url)
    yield database
    database.close()


@pytest.fixture
def store(database: Database) -> ObservationStore:
    return ObservationStore(database.connections)


def test_an_observation_brings_its_job(database: Database, store: ObservationStore) -> None:
    assert store.add([stored_observation("1")]) == [Outcome.ADDED]
    found = JobStore(database.connections).find("a-8")
    assert found is not None and found.content == stored_job().content


def test_a_key_is_taken_once_in_a_family(store: ObservationStore) -> None:
    first = stored_observation("1")
    assert store.add([first]) == [Outcome.ADDED]
    assert store.add([first]) == [Outcome.KNOWN]
    assert store.add([stored_observation("1", step_time_s=0.7)]) == [Outcome.CONFLICT]
    assert store.add([stored_observation("1", job=stored_job("b"))]) == [Outcome.ADDED]
    assert [seen.step_time_s for seen in store.recent("a")] == [0.5]


def test_the_first_of_a_key_within_one_call_stands(store: ObservationStore) -> None:
    one, other = stored_observation("1"), stored_observation("1", step_time_s=0.7)
    two = stored_observation("2")
    assert store.add([one, other, one, two]) == [
        Outcome.ADDED, Outcome.CONFLICT, Outcome.KNOWN, Outcome.ADDED,
    ]  # fmt: skip
    assert [seen.step_time_s for seen in store.recent("a")] == [0.5, 0.5]


def test_what_comes_back_is_what_was_kept(store: ObservationStore) -> None:
    store.add([stored_observation("1", step_time_s=1 / 3, reason="too fast")])
    (found,) = store.page().items
    assert found.step_time_s == 1 / 3  # to the last bit
    assert (found.state, found.reason) == (ObservationState.QUARANTINED, "too fast")
    assert (found.job.ref, found.job.family, found.sync_time_s) == ("a-8", "a", 0.1)
    assert found.received_at > "2026"


def test_what_is_quarantined_does_not_count(store: ObservationStore) -> None:
    store.add([stored_observation("1"), stored_observation("2", reason="too fast")])
    assert [seen.key for seen in store.recent("a")] == ["1"]
    assert [s.key for s in store.page(state=ObservationState.QUARANTINED).items] == ["2"]


def test_pages_are_of_one_family(store: ObservationStore) -> None:
    other = stored_job("b")
    store.add([stored_observation(f"{i}") for i in range(5)])
    store.add([stored_observation("x", job=other)])
    first = store.page(family="a", limit=3)
    second = store.page(family="a", limit=3, cursor=first.next_cursor)
    assert [seen.key for seen in (*first.items, *second.items)] == ["4", "3", "2", "1", "0"]
    assert second.next_cursor is None


def test_a_job_that_reports_each_step_does_not_crowd_out_its_other_placements(
    store: ObservationStore,
) -> None:
    store.add([stored_observation("first", placement='"1xT4"')])
    store.add([stored_observation(f"{i}", step_time_s=0.5 + i) for i in range(500)])
    found = store.recent("a", most=4, of_one_cell=3)
    assert [seen.key for seen in found] == ["first", "497", "498", "499"]


def test_more_rows_than_one_statement_takes(store: ObservationStore) -> None:
    many = [stored_observation(f"{i}") for i in range(1_200)]
    assert store.add(many) == [Outcome.ADDED] * 1_200
    assert store.add(many) == [Outcome.KNOWN] * 1_200


def test_the_revision_tells_which_families_changed(store: ObservationStore) -> None:
    assert store.changed_since(0) == (0, frozenset())
    store.add([stored_observation("1"), stored_observation("1", job=stored_job("b"))])
    assert store.changed_since(0) == (1, {"a", "b"})
    store.add([stored_observation("2")])
    assert store.changed_since(1) == (2, {"a"})

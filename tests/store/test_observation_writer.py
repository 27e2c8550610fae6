from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest
from made_up_observations import stored_observation
from waiting import PATIENCE_S

from perfmodel.errors import StoreError
from perfmodel.store.sql.connections import ExistsError
from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_records import Outcome, StoredObservation
from perfmodel.store.state.observation_writer import ObservationWriter
from perfmodel.store.state.observations import ObservationStore


@pytest.fixture
def store(migrated_url: str) -> Iterator[ObservationStore]:
    database = Database(migrated_url)
    yield ObservationStore(database.connections)
    database.close()


class HeldStore:
    """A real store whose first transaction begins when it is let go; counts transactions."""

    def __init__(self, store: ObservationStore) -> None:
        self.store = store
        self.begun = Event()
        self.free = Event()
        self.sizes: list[int] = []

    def add(self, observations: Sequence[StoredObservation]) -> list[Outcome]:
        self.begun.set()
        assert self.free.wait(PATIENCE_S)
        self.sizes.append(len(observations))
        return self.store.add(observations)


def _fill(writer: ObservationWriter, held: HeldStore, count: int) -> list[Future[list[Outcome]]]:
    """Submit one observation, and then more while its transaction is under way."""
    first = writer.submit([stored_observation("0")])
    assert held.begun.wait(PATIENCE_S)
    return [first, *(writer.submit([stored_observation(f"{i + 1}")]) for i in range(count))]


def test_who_comes_during_a_transaction_shares_the_next(store: ObservationStore) -> None:
    held = HeldStore(store)
    writer = ObservationWriter(held)  # type: ignore[arg-type]
    futures = _fill(writer, held, 5)
    assert writer.waiting == 5
    held.free.set()
    assert [future.result(PATIENCE_S) for future in futures] == [[Outcome.ADDED]] * 6
    assert held.sizes == [1, 5]
    writer.close()


def test_one_that_does_not_wait_any_more_stops_no_other(store: ObservationStore) -> None:
    held = HeldStore(store)
    writer = ObservationWriter(held)  # type: ignore[arg-type]
    first, gone, other = _fill(writer, held, 2)
    assert not first.cancel()  # it is being written
    assert gone.cancel()
    held.free.set()
    later = writer.submit([stored_observation("later")])
    assert [one.result(PATIENCE_S) for one in (first, other, later)] == [[Outcome.ADDED]] * 3
    writer.close()
    assert writer.waiting == 0


def test_each_caller_gets_its_own_outcomes(store: ObservationStore) -> None:
    writer = ObservationWriter(store)
    with ThreadPoolExecutor(4) as pool:
        batches = [[stored_observation(f"{i % 5}-{j}") for j in range(i % 3)] for i in range(30)]
        answers = list(pool.map(lambda batch: writer.submit(batch).result(PATIENCE_S), batches))
    assert [len(answer) for answer in answers] == [i % 3 for i in range(30)]
    # i and i + 15 have the same keys and number: each key is new once. Of 15 callers 5 bring one
    # observation and 5 two, and callers of one key's prefix (i % 5) overlap in j = 0.
    keys = {seen.key for batch in batches for seen in batch}
    assert sum(answer.count(Outcome.ADDED) for answer in answers) == len(keys)
    writer.close()


def test_too_many_waiting_are_turned_away(store: ObservationStore) -> None:
    held = HeldStore(store)
    writer = ObservationWriter(held, most_waiting=3)  # type: ignore[arg-type]
    futures = _fill(writer, held, 3)
    with pytest.raises(StoreError, match="3 observations wait"):
        writer.submit([stored_observation("more")])
    held.free.set()
    assert [future.result(PATIENCE_S) for future in futures] == [[Outcome.ADDED]] * 4
    writer.close()


def test_what_waits_is_written_before_the_end(store: ObservationStore) -> None:
    writer = ObservationWriter(store)
    futures = [writer.submit([stored_observation(f"{i}")]) for i in range(20)]
    writer.close()
    assert all(future.done() for future in futures)
    assert len(store.page(limit=100).items) == 20
    with pytest.raises(StoreError, match="ends"):
        writer.submit([stored_observation("late")])


def test_a_failure_is_told_and_the_next_is_written(store: ObservationStore) -> None:
    writer = ObservationWriter(store)
    bad = stored_observation("bad")
    object.__setattr__(bad, "batch_size", None)  # no row may lack it
    with pytest.raises(ExistsError, match="(?i)not.null"):
        writer.submit([bad]).result(PATIENCE_S)
    assert writer.submit([stored_observation("good")]).result(PATIENCE_S) == [Outcome.ADDED]
    writer.close()

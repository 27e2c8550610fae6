"""Retrainings on both databases: one open of a model, leases, cancelling, what is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from jumping_clock import jump

from perfmodel.store.retraining import RetrainingLogStore, RetrainingStore
from perfmodel.store.retraining.retraining_records import (
    Retraining,
    RetrainingState,
    Trigger,
)
from perfmodel.store.retraining.retraining_store import MOST_ATTEMPTS
from perfmodel.store.sql.connections import Connections

FOREVER_S = 3600.0


@pytest.fixture
def connections(migrated_url: str) -> Iterator[Connections]:
    made = Connections(migrated_url)
    yield made
    made.close()


@pytest.fixture
def store(connections: Connections) -> RetrainingStore:
    return RetrainingStore(connections)


def _claim(store: RetrainingStore, owner: str = "a", lease_s: float = FOREVER_S) -> Retraining:
    found = store.claim(owner, lease_s=lease_s)
    assert found is not None
    return found


def test_one_retraining_of_a_model_is_open_at_a_time(store: RetrainingStore) -> None:
    first, created = store.start(
        "default", trigger=Trigger.CRON, why="weekly", settings={"seed": 1}
    )
    assert created and first.state is RetrainingState.WAITING and first.settings == {"seed": 1}
    assert store.start("default", why="again") == (first, False)
    other, created = store.start("other")
    assert created and other.name != first.name
    claim = _claim(store)
    assert claim.name == first.name and store.start("default")[1] is False
    assert store.end(claim, RetrainingState.DONE, version="v1")
    again, created = store.start("default")
    assert created and again.name != first.name
    assert store.open_of("default") == again
    assert [one.name for one in store.page(model="default").items] == [again.name, first.name]
    assert store.states() == {
        "waiting": 2, "running": 0, "done": 1, "refused": 0, "failed": 0, "cancelled": 0,
    }  # fmt: skip


def test_hosts_that_start_at_the_same_time_start_one(migrated_url: str) -> None:
    hosts = [Connections(migrated_url) for _ in range(6)]
    barrier, found = threading.Barrier(len(hosts)), []

    def start(host: Connections) -> None:
        barrier.wait()
        found.append(RetrainingStore(host).start("default"))

    threads = [threading.Thread(target=start, args=(host,)) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [created for _, created in found].count(True) == 1
    assert len({one.name for one, _ in found}) == 1
    claims = [RetrainingStore(host).claim(str(at), lease_s=60) for at, host in enumerate(hosts)]
    assert len([claim for claim in claims if claim is not None]) == 1
    for host in hosts:
        host.close()


def test_a_lost_retraining_is_taken_over_and_its_first_worker_is_heard_no_more(
    store: RetrainingStore,
) -> None:
    store.start("default")
    first = _claim(store, "first", lease_s=0.0)
    assert store.decide(first, version="v1", decision={"accepted": True})
    second = _claim(store, "second")
    # What the first one decided is told to whoever takes over.
    assert (second.attempts, second.version, second.decision) == (2, "v1", {"accepted": True})
    assert not store.renew("first", [first.name], lease_s=1.0)
    assert not store.tell(first, phase="fit", progress="", fraction=0.2)
    assert not store.decide(first, version=None, decision=None)
    assert not store.end(first, RetrainingState.FAILED, reason="mine")
    assert store.renew("second", [second.name], lease_s=FOREVER_S)
    assert store.tell(second, phase="fit", progress="fitted", fraction=0.5)
    found = store.find(second.name)
    assert found is not None
    assert (found.phase, found.progress, found.fraction) == ("fit", "fitted", 0.5)
    assert store.put_back(second) and store.has_due()
    assert _claim(store).attempts == 2


@pytest.mark.parametrize("by_s", [86_400.0, -86_400.0])
def test_a_database_whose_clock_jumps_ends_nothing_twice(
    store: RetrainingStore, monkeypatch: pytest.MonkeyPatch, by_s: float
) -> None:
    store.start("default")
    first = _claim(store, "first")
    jump(monkeypatch, by_s)
    second = _claim(store, "second")
    assert store.end(second, RetrainingState.REFUSED, reason="worse")
    assert not store.end(first, RetrainingState.DONE, version="v1")
    found = store.find(first.name)
    assert found is not None and found.state is RetrainingState.REFUSED


def test_one_that_takes_its_workers_with_it_is_given_up(store: RetrainingStore) -> None:
    name = store.start("default")[0].name
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert _claim(store, lease_s=0.0).attempts == attempt
    assert store.claim("b", lease_s=1.0) is None
    assert (store.give_up_lost(), store.give_up_lost()) == (1, 0)
    found = store.find(name)
    assert found is not None and found.state is RetrainingState.FAILED
    assert found.reason is not None and f"lost {MOST_ATTEMPTS} times" in found.reason


def test_cancelling_ends_what_waits_and_what_runs_but_nothing_that_takes_effect(
    store: RetrainingStore,
) -> None:
    waiting = store.start("default")[0].name
    assert store.cancel(waiting) and not store.cancel(waiting)
    running = store.start("default")[0].name
    claim = _claim(store)
    assert store.cancel(running)
    assert not store.renew("a", [claim.name], lease_s=1.0)
    assert not store.decide(claim, version="v1", decision={})
    published = store.start("default")[0].name
    assert store.decide(_claim(store), version="v1", decision={})
    assert not store.cancel(published) and not store.cancel("unknown")


def test_lines_are_read_while_they_are_added(connections: Connections) -> None:
    log = RetrainingLogStore(connections)
    log.add("one", 1, ["begins", "x" * 3_000])
    log.add("two", 1, ["other"])
    log.add("one", 2, ["goes on"])
    log.add("one", 2, [])
    lines = log.lines("one")
    assert [(line.attempt, line.text[:10]) for line in lines] == [
        (1, "begins"), (1, "x" * 10), (2, "goes on"),
    ]  # fmt: skip
    assert len(lines[1].text) == 2_000
    assert [line.text for line in log.lines("one", after=lines[1].number)] == ["goes on"]
    assert len(log.lines("one", limit=1)) == 1

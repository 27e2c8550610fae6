from __future__ import annotations

from inspect import signature

import pytest
from waiting import until

from perfmodel.client.records import Price
from perfmodel.errors import StoreError
from perfmodel.store.sql.shared_store import RevisionWatch
from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_feed import EVERY_S, ObservationFeed
from perfmodel.store.state.prices import PriceStore, RememberedPrices

PRICE = Price(accelerator="T4", per_hour=0.35)


def test_a_change_is_told_once(migrated_url: str) -> None:
    database = Database(migrated_url)
    watch, told = RevisionWatch(database.connections), []
    watch.on_change("prices", lambda: told.append("prices"))
    watch.on_change("keys", lambda: told.append("keys"))
    watch.poll()
    assert told == ["prices", "keys"]  # what was before is not known
    watch.poll()
    PriceStore(database.connections).put(PRICE)
    watch.poll()
    watch.poll()
    assert told == ["prices", "keys", "prices"]
    database.close()


def test_who_could_not_follow_is_told_again(migrated_url: str) -> None:
    database = Database(migrated_url)
    watch, told = RevisionWatch(database.connections), []

    def follow() -> None:
        told.append(1)
        if len(told) == 1:
            raise StoreError("away")

    watch.on_change("prices", follow)
    with pytest.raises(StoreError):
        watch.poll()
    watch.poll()
    watch.poll()
    assert len(told) == 2
    database.close()


def test_what_another_process_changes_is_seen(migrated_url: str) -> None:
    databases = [Database(migrated_url) for _ in range(2)]
    here, there = (RememberedPrices(database.connections) for database in databases)
    watch = RevisionWatch(databases[0].connections)
    watch.on_change("prices", here.refresh)
    assert here.all() == {}
    watch.start()
    for per_hour in (1.0, 2.0):
        price = Price(accelerator="T4", per_hour=per_hour)
        there.put(price)
        assert there.all() == {"T4": price}
        until(lambda price=price: here.all() == {"T4": price})  # type: ignore[misc]
    watch.close()
    for database in databases:
        database.close()


def test_it_is_looked_twice_within_the_two_seconds_that_are_promised() -> None:
    for looks in (RevisionWatch, ObservationFeed):
        assert 0 < signature(looks).parameters["poll_s"].default <= 1.0
    assert EVERY_S <= 1.0

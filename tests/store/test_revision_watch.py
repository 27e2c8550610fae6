from __future__ import annotations

import itertools
import time

import pytest
from bounded_time import bounded_s

from perfmodel.errors import StoreError
from perfmodel.store.sql.revisions import RevisionWatch
from perfmodel.store.state.database import Database
from perfmodel.store.state.prices import Price, PriceStore, RememberedPrices

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


def test_what_another_process_changes_is_seen_within_two_seconds(migrated_url: str) -> None:
    databases = [Database(migrated_url) for _ in range(2)]
    here, there = (RememberedPrices(database.connections) for database in databases)
    watch = RevisionWatch(databases[0].connections)
    watch.on_change("prices", here.refresh)
    assert here.all() == {}
    watch.start()
    prices = itertools.count(1)

    def seen_after_s() -> float:
        price = Price(accelerator="T4", per_hour=float(next(prices)))
        there.put(price)
        assert there.all() == {"T4": price}
        began = time.monotonic()
        while here.all() != {"T4": price}:
            assert time.monotonic() < began + 60
            time.sleep(0.02)
        return time.monotonic() - began

    assert bounded_s(seen_after_s, within_s=2.0) < 2.0
    watch.close()
    for database in databases:
        database.close()

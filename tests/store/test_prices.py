from __future__ import annotations

from collections.abc import Iterator

import pytest

from perfmodel.client.records import Price
from perfmodel.store.sql.shared_store import read_revisions
from perfmodel.store.state.database import Database
from perfmodel.store.state.prices import REVISION, PriceStore


@pytest.fixture
def prices(migrated_url: str) -> Iterator[PriceStore]:
    database = Database(migrated_url)
    yield PriceStore(database.connections)
    database.close()


def test_the_last_price_stands(prices: PriceStore) -> None:
    assert prices.all() == {}
    prices.put(Price(accelerator="T4", per_hour=0.35))
    prices.put(Price(accelerator="A100-SXM4-80GB", per_hour=3.0, currency="EUR"))
    prices.put(Price(accelerator="T4", per_hour=0.4))
    assert prices.all() == {
        "A100-SXM4-80GB": Price(accelerator="A100-SXM4-80GB", per_hour=3.0, currency="EUR"),
        "T4": Price(accelerator="T4", per_hour=0.4),
    }


def test_a_price_is_removed_once(prices: PriceStore) -> None:
    prices.put(Price(accelerator="T4", per_hour=0.35))
    assert prices.remove("T4")
    assert not prices.remove("T4")
    assert prices.all() == {}


def test_each_change_raises_the_revision(migrated_url: str) -> None:
    database = Database(migrated_url)
    prices, seen = PriceStore(database.connections), []
    for change in (
        lambda: None,
        lambda: prices.put(Price(accelerator="T4", per_hour=0.35)),
        lambda: prices.remove("T4"),
    ):
        change()
        with database.connections.reading() as connection:
            seen.append(read_revisions(connection).get(REVISION, 0))
    database.close()
    assert seen == [0, 1, 2]

from __future__ import annotations

import pytest

from perfmodel.client.records import Price
from perfmodel.store.state.accelerators import AcceleratorStore, OwnAccelerators
from perfmodel.store.state.database import Database
from perfmodel.store.state.prices import PriceStore


@pytest.fixture
def own(database: Database) -> AcceleratorStore:
    return AcceleratorStore(database.connections)


def _fine(found: OwnAccelerators) -> None:
    pass


def test_a_device_is_kept_replaced_and_removed_with_all_that_is_its(
    own: AcceleratorStore, database: Database
) -> None:
    prices = PriceStore(database.connections)
    assert not own.all()
    assert own.put("b", '{"n":1}', _fine)
    assert own.put("a", '{"n":2}', _fine)
    assert not own.put("b", '{"n":3}', _fine)
    assert own.put_alias("old", "b", _fine)
    assert own.put_alias("other", "T4", _fine)
    prices.put(Price(accelerator="b", per_hour=1.0))
    found = own.all()
    assert list(found.devices.items()) == [("a", '{"n":2}'), ("b", '{"n":3}')]
    assert found.aliases == {"old": "b", "other": "T4"}
    assert own.remove("b")
    assert not own.remove("b")
    assert own.all() == OwnAccelerators(devices={"a": '{"n":2}'}, aliases={"other": "T4"})
    assert prices.all() == {}


def test_an_alias_may_come_to_mean_another_device(own: AcceleratorStore) -> None:
    assert own.put_alias("x", "T4", _fine)
    assert not own.put_alias("x", "A10", _fine)
    assert own.all().aliases == {"x": "A10"}
    assert not own.remove_alias("x", "T4")
    assert own.remove_alias("x", "A10")
    assert not own.all()


def test_what_may_not_stand_is_not_kept(own: AcceleratorStore) -> None:
    asked: list[OwnAccelerators] = []

    def refuse(found: OwnAccelerators) -> None:
        asked.append(found)
        raise ZeroDivisionError

    own.put("a", "{}", _fine)
    with pytest.raises(ZeroDivisionError):
        own.put("b", "{}", refuse)
    with pytest.raises(ZeroDivisionError):
        own.put_alias("x", "a", refuse)
    assert [set(found.devices) for found in asked] == [{"a", "b"}, {"a"}]
    assert asked[1].aliases == {"x": "a"}
    assert own.all() == OwnAccelerators(devices={"a": "{}"})

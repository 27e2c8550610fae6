"""Tables of columns: rows that are taken and joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from perfmodel.features.arrays import Columns, FloatArray, StrArray


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Places(Columns):
    hosts: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Steps(Columns):
    places: Places
    time_s: FloatArray
    job: StrArray


@dataclass(frozen=True, kw_only=True)
class Calls(Columns):
    shape: Mapping[str, FloatArray]
    devices: tuple[str, ...]


def steps(*times_s: float) -> Steps:
    times = np.array(times_s)
    return Steps(places=Places(hosts=times * 10), time_s=times, job=np.array(["a"] * len(times)))


def test_rows_are_taken_by_mask_position_and_slice() -> None:
    some = steps(1.0, 2.0, 3.0)
    for rows in (np.array([False, True, True]), np.array([1, 2]), slice(1, None)):
        found = some.take(rows)
        assert found.time_s.tolist() == [2.0, 3.0]
        assert found.places.hosts.tolist() == [20.0, 30.0]


def test_columns_by_name_are_taken_and_what_is_of_all_rows_stays() -> None:
    calls = Calls(shape={"m": np.array([1.0, 2.0])}, devices=("T4",))
    found = calls.take(np.array([1]))
    assert found.shape["m"].tolist() == [2.0]
    assert found.devices == ("T4",)


def test_rows_are_joined_in_order() -> None:
    joined = Steps.join([steps(1.0, 2.0), steps(3.0)])
    assert joined.time_s.tolist() == [1.0, 2.0, 3.0]
    assert joined.places.hosts.tolist() == [10.0, 20.0, 30.0]
    assert joined.job.tolist() == ["a", "a", "a"]


def test_tables_without_a_comparison_of_their_own_are_equal_to_themselves_alone() -> None:
    one = steps(1.0)
    assert one == one
    assert one != steps(2.0)
    assert len({one, steps(2.0)}) == 2

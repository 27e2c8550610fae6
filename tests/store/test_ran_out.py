"""What ran out of memory is kept with steps, and no reader of times takes it for one."""

from __future__ import annotations

import math

import pytest
from made_up_observations import stored_job, stored_observation

from perfmodel.store.feedback import ResidualStore
from perfmodel.store.retraining import ObservedDataStore
from perfmodel.store.retraining.retraining_marks import Mark, arrivals_since
from perfmodel.store.shadow.comparisons import Comparison, ComparisonStore
from perfmodel.store.state import observations
from perfmodel.store.state.database import Database
from perfmodel.store.state.observation_records import ObservationFilter, StoredObservation
from perfmodel.store.state.observations import ObservationStore

CELL = Comparison(
    question="a", label="job", device="T4", mode="training", family="resnet",
    placement_kind="eight", job_family="a", batch_size=8, accumulation_steps=1,
    placement='"8xT4"', named_placement='"8xT4"', serving_s=0.1, shadow_s=0.2, answered_ratio=0.5,
)  # fmt: skip


def _ran_out(
    key: str, *, placement: str = '"8xT4"', reporter: str = "", batch_size: int = 8
) -> StoredObservation:
    return stored_observation(
        key, placement=placement, reporter=reporter, batch_size=batch_size, step_time_s=math.inf
    )


def test_it_comes_back_as_it_was_kept(database: Database) -> None:
    store = ObservationStore(database.connections)
    store.add([_ran_out("killed"), stored_observation("ran")])
    assert [(one.key, one.ran_out) for one in store.counting("a")] == [
        ("killed", True), ("ran", False),
    ]  # fmt: skip
    assert {one.key for one in store.page().items} == {"killed", "ran"}
    assert store.remove(ObservationFilter(key="killed")) == 1
    assert [one.key for one in store.counting("a")] == ["ran"]


def test_of_all_jobs_steps_alone_count(database: Database) -> None:
    store = ObservationStore(database.connections)
    store.add([_ran_out("killed"), stored_observation("ran", job=stored_job("b"))])
    assert [one.key for one in store.counting(None)] == ["ran"]


def test_it_takes_no_room_of_steps(database: Database) -> None:
    store = ObservationStore(database.connections)
    steps = [
        stored_observation(f"{reporter} {at}", placement=f'"{at}xT4"', reporter=reporter)
        for at in range(6)
        for reporter in ("one", "other")
    ]
    store.add(steps)
    most = {"most": 5, "of_one_cell": 2}
    before = store.counting("a", **most)
    killed = [
        _ran_out(f"killed {at} {time}", placement=f'"{at}xT4"', reporter="one")
        for at in range(6)
        for time in range(3)
    ]
    store.add(killed)
    after = store.counting("a", **most)
    assert tuple(one for one in after if not one.ran_out) == before
    # One of each of the newest cells, as many as there is room for.
    assert [one.key for one in after if one.ran_out] == [f"killed {at} 2" for at in range(1, 6)]


def test_many_of_one_kind_do_not_hide_the_other(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "_LOOKED_AT", 8)
    store = ObservationStore(database.connections)
    store.add([_ran_out("killed"), stored_observation("ran", placement='"2xT4"')])
    store.add([stored_observation(f"ran {at}", step_time_s=1.0 + at) for at in range(20)])
    assert "killed" in {one.key for one in store.counting("a")}
    store.add([_ran_out(f"killed {at}", batch_size=9 + at) for at in range(20)])
    assert [one.key for one in store.counting("a") if not one.ran_out] == [
        f"ran {at}" for at in range(15, 20)
    ]
    assert [one.key for one in store.counting(None)] == [f"ran {at}" for at in range(15, 20)]


def test_large_batches_do_not_crowd_out_the_smallest(database: Database) -> None:
    store = ObservationStore(database.connections)
    batches = [64, *range(1000, 1300)]
    store.add([_ran_out(f"killed {batch}", batch_size=batch) for batch in batches])
    found = [one.batch_size for one in store.counting("a")]
    assert found == batches[:256]


def test_who_reads_times_passes_it_over(database: Database) -> None:
    connections = database.connections
    store, comparisons = ObservationStore(connections), ComparisonStore(connections)
    comparisons.add("v/2", "v/1", [CELL])
    store.add([stored_observation("ran"), _ran_out("killed")])
    believed = store.page(ObservationFilter(measured=True))
    assert [one.key for one in believed.items] == ["ran"]
    residuals = ResidualStore(connections)
    assert [one.seen.key for one in residuals.uncompared(limit=9)] == ["ran"]
    assert residuals.counts() == (0, 0, 1)
    learned = ObservedDataStore(connections).newest_accepted(9)
    assert [one.step_time_s for one in learned] == [0.5]
    assert [one.step_time_s for one in comparisons.measured("v/2", "v/1")["a"]] == [0.5]
    with connections.reading() as connection:
        arrived = arrivals_since(connection, "m", Mark(), most_observations=9)
    assert arrived.observations == 1

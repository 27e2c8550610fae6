from __future__ import annotations

from collections.abc import Sequence

import pytest
from jumping_clock import jump
from made_up_observations import stored_job, stored_observation

from perfmodel.store.sql.connections import now
from perfmodel.store.state import observations
from perfmodel.store.state.database import Database
from perfmodel.store.state.jobs import JobStore
from perfmodel.store.state.observation_records import (
    ObservationFilter,
    ObservationState,
    Outcome,
    StoredObservation,
)
from perfmodel.store.state.observations import MOST_OF_A_JOB, ObservationStore


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
    assert [seen.step_time_s for seen in store.counting("a")] == [0.5]


def test_the_first_of_a_key_within_one_call_stands(store: ObservationStore) -> None:
    one, other = stored_observation("1"), stored_observation("1", step_time_s=0.7)
    two = stored_observation("2")
    assert store.add([one, other, one, two]) == [
        Outcome.ADDED, Outcome.CONFLICT, Outcome.KNOWN, Outcome.ADDED,
    ]  # fmt: skip
    assert [seen.step_time_s for seen in store.counting("a")] == [0.5, 0.5]


def test_what_comes_back_is_what_was_kept(store: ObservationStore) -> None:
    store.add([stored_observation("1", step_time_s=1 / 3, reason="too fast")])
    (found,) = store.page().items
    assert found.step_time_s == 1 / 3  # to the last bit
    assert (found.state, found.reason) == (ObservationState.QUARANTINED, "too fast")
    assert (found.job.ref, found.job.family, found.sync_time_s) == ("a-8", "a", 0.1)
    assert found.received_at > "2026"


def test_what_is_quarantined_does_not_count(store: ObservationStore) -> None:
    store.add([stored_observation("1"), stored_observation("2", reason="too fast")])
    assert [seen.key for seen in store.counting("a")] == ["1"]
    doubted = ObservationFilter(state=ObservationState.QUARANTINED)
    assert [s.key for s in store.page(doubted).items] == ["2"]


def test_pages_are_of_one_family(store: ObservationStore) -> None:
    other = stored_job("b")
    store.add([stored_observation(f"{i}") for i in range(5)])
    store.add([stored_observation("x", job=other)])
    of_a = ObservationFilter(family="a")
    first = store.page(of_a, limit=3)
    second = store.page(of_a, limit=3, cursor=first.next_cursor)
    assert [seen.key for seen in (*first.items, *second.items)] == ["4", "3", "2", "1", "0"]
    assert second.next_cursor is None


def test_a_job_that_reports_each_step_does_not_crowd_out_its_other_placements(
    store: ObservationStore,
) -> None:
    store.add([stored_observation("first", placement='"1xT4"')])
    store.add([stored_observation(f"{i}", step_time_s=0.5 + i) for i in range(500)])
    found = store.counting("a", most=4, of_one_cell=3)
    assert [seen.key for seen in found] == ["first", "497", "498", "499"]


def test_a_job_counts_in_very_many_cells(store: ObservationStore) -> None:
    keys = [f"{batch}" for batch in range(1, MOST_OF_A_JOB + 2)]
    store.add([stored_observation(key, batch_size=int(key)) for key in keys])
    assert [seen.key for seen in store.counting("a")] == keys[1:]


def test_more_rows_than_one_statement_takes(store: ObservationStore) -> None:
    many = [stored_observation(f"{i}") for i in range(1_200)]
    assert store.add(many) == [Outcome.ADDED] * 1_200
    assert store.add(many) == [Outcome.KNOWN] * 1_200


def test_the_counters_tell_which_families_changed(store: ObservationStore) -> None:
    assert store.changes_since(0) == (0, 0, frozenset())
    store.add([stored_observation("1"), stored_observation("1", job=stored_job("b"))])
    assert store.changes_since(0) == (1, 0, {"a", "b"})
    store.add([stored_observation("2")])
    assert store.changes_since(1) == (2, 0, {"a"})
    store.remove(ObservationFilter(key="2"))
    assert store.changes() == (2, 1, frozenset())
    # Nothing is meant, so that nobody need read again.
    store.remove(ObservationFilter(key="2"))
    assert store.changes() == (2, 1, frozenset())


def test_a_key_is_taken_once_by_each_reporter(store: ObservationStore) -> None:
    one, other = (stored_observation("1", reporter=name) for name in ("one", "other"))
    different = stored_observation("1", reporter="other", step_time_s=0.7)
    assert store.add([one, other, different]) == [Outcome.ADDED, Outcome.ADDED, Outcome.CONFLICT]
    assert store.add([one, other, different]) == [Outcome.KNOWN, Outcome.KNOWN, Outcome.CONFLICT]
    assert [seen.reporter for seen in store.counting("a")] == ["one", "other"]


@pytest.fixture
def filled(store: ObservationStore) -> ObservationStore:
    """Return a store with two keys of each of two reporters, for each of two jobs."""
    store.add(
        [
            stored_observation(key, job=stored_job(name), reporter=reporter)
            for name in "ab"
            for reporter in ("one", "other")
            for key in ("1", "2")
        ]
    )
    return store


def _left(store: ObservationStore) -> list[str]:
    return sorted(f"{s.job.family} {s.reporter} {s.key}" for s in store.page().items)


@pytest.mark.parametrize(
    ("which", "meant"),
    [
        (ObservationFilter(family="a"), ["a one 1", "a one 2", "a other 1", "a other 2"]),
        (ObservationFilter(reporter="one", key="1"), ["a one 1", "b one 1"]),
        (ObservationFilter(reporter="one", key="1", family="b"), ["b one 1"]),
        (ObservationFilter(reporter=""), []),
        (ObservationFilter(before="2020"), []),
        (ObservationFilter(after="2020", family="b", key="2"), ["b one 2", "b other 2"]),
        (ObservationFilter(after="2020", before="9999", key="3"), []),
    ],
)
def test_what_is_removed_is_what_was_meant(
    filled: ObservationStore, which: ObservationFilter, meant: list[str]
) -> None:
    every = _left(filled)
    assert sorted(f"{s.job.family} {s.reporter} {s.key}" for s in filled.page(which).items) == meant
    assert filled.remove(which) == len(meant)
    assert _left(filled) == [one for one in every if one not in meant]
    assert filled.remove(which) == 0


def test_more_are_removed_than_one_transaction_takes(
    store: ObservationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observations, "_AT_ONCE", 4)
    store.add([stored_observation(f"{i}") for i in range(8)])
    store.add([stored_observation("0", job=stored_job("b"))])
    assert store.remove(ObservationFilter(family="a")) == 8
    assert _left(store) == ["b  0"]


def test_what_is_excluded_counts_again_when_it_is_taken_in(filled: ObservationStore) -> None:
    states = ObservationState
    mine = ObservationFilter(family="a", reporter="one")
    before = filled.counting("a"), filled.counting(None, most=100)
    assert filled.move(mine, states.EXCLUDED, out_of=[states.ACCEPTED]) == 2
    assert [(s.reporter, s.key) for s in filled.counting("a")] == [("other", "1"), ("other", "2")]
    assert len(filled.counting(None, most=100)) == 6
    assert [s.key for s in filled.page(ObservationFilter(state=states.EXCLUDED)).items] == [
        "2",
        "1",
    ]
    assert filled.move(mine, states.EXCLUDED, out_of=[states.ACCEPTED]) == 0
    assert filled.move(mine, states.ACCEPTED, out_of=[states.EXCLUDED]) == 2
    assert (filled.counting("a"), filled.counting(None, most=100)) == before


def test_what_is_too_old_counts_no_longer_and_is_removed(
    database: Database, filled: ObservationStore
) -> None:
    keeps_an_hour = ObservationStore(database.connections, keep_s=3_600)
    assert len(keeps_an_hour.counting("a")) == 4
    assert keeps_an_hour.remove_expired() == filled.remove_expired() == 0
    with database.connections.writing() as connection:
        connection.exec_driver_sql(
            "UPDATE observations SET received_at = '2020-01-01T00:00:00.000+00:00' "
            "WHERE reporter = 'one'"
        )
    assert {seen.reporter for seen in keeps_an_hour.counting("a")} == {"other"}
    assert {seen.reporter for seen in keeps_an_hour.counting(None, most=100)} == {"other"}
    assert len(filled.counting("a")) == 4
    assert keeps_an_hour.remove_expired() == 4
    assert len(_left(filled)) == 4


def test_times_are_those_of_the_database(
    store: ObservationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A host whose own clock is a day behind would else keep what others remove at once.
    jump(monkeypatch, 86_400.0)
    store.add([stored_observation("an hour", expires_in_s=3_600)])
    (seen,) = store.page().items
    assert seen.received_at > now()
    assert len(store.counting("a")) == 1
    jump(monkeypatch, 3_601.0)
    assert not store.counting("a")
    assert store.remove_expired() == 1


def test_what_said_how_long_it_counts_counts_no_longer_and_is_removed(
    store: ObservationStore,
) -> None:
    store.add([stored_observation("for good", placement='"1xL4"')])
    store.add([stored_observation("an hour", placement='"2xL4"', expires_in_s=3_600)])
    store.add([stored_observation("no time", placement='"4xL4"', expires_in_s=1e-6)])
    for found in (store.counting("a"), store.counting(None, most=100)):
        assert [seen.key for seen in found] == ["for good", "an hour"]
    assert store.remove_expired() == 1
    assert [seen.key for seen in store.page().items] == ["an hour", "for good"]
    assert [seen.expires_at is None for seen in store.page().items] == [False, True]
    # Sent again it lasts no longer, and what is gone may be reported again.
    again = [stored_observation("an hour", placement='"2xL4"', expires_in_s=7_200)]
    before = store.page().items[0].expires_at
    assert store.add(again) == [Outcome.KNOWN]
    assert store.page().items[0].expires_at == before
    assert store.add([stored_observation("no time", placement='"4xL4"')]) == [Outcome.ADDED]


def _cells(found: Sequence[StoredObservation]) -> list[tuple[str, str]]:
    return [(seen.reporter, seen.key) for seen in found]


def test_who_reports_much_does_not_crowd_out_the_others(store: ObservationStore) -> None:
    quiet = [stored_observation(f"{i}", placement=f'"{i}xT4"', reporter="quiet") for i in (1, 2, 4)]
    store.add(quiet)
    store.add(
        [stored_observation(f"{i}", placement=f'"{i}xL4"', reporter="loud") for i in range(500)]
    )
    # Room for ten cells: all three of the one, the newest seven of the other.
    for found in (store.counting("a", most=10), store.counting(None, most=10)):
        assert _cells(found) == [
            *[("quiet", key) for key in ("1", "2", "4")],
            *[("loud", f"{i}") for i in range(493, 500)],
        ]
    # Room for four: two of each.
    assert _cells(store.counting(None, most=4)) == [
        ("quiet", "2"), ("quiet", "4"), ("loud", "498"), ("loud", "499"),
    ]  # fmt: skip


def test_of_a_cell_the_newest_few_of_each_reporter_count(store: ObservationStore) -> None:
    for reporter in ("one", "other"):
        store.add([stored_observation(f"{i}", reporter=reporter) for i in range(8)])
    for found in (store.counting("a"), store.counting(None, most=100)):
        assert _cells(found) == [
            (reporter, f"{i}") for reporter in ("one", "other") for i in range(3, 8)
        ]


def test_the_newest_of_each_reporter_are_looked_at(
    store: ObservationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fifty of each of two: what lies before is not looked at, so that time is bounded.
    monkeypatch.setattr(observations, "_LOOKED_AT", 100)
    store.add([stored_observation("first", placement='"1xT4"', reporter="one")])
    store.add([stored_observation("first", placement='"1xT4"', reporter="other")])
    store.add([stored_observation(f"{i}", reporter="one") for i in range(60)])
    assert _cells(store.counting(None, most=100, of_one_cell=1)) == [
        ("other", "first"),
        ("one", "59"),
    ]

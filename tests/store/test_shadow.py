"""Questions, comparisons and who makes them, in either database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from perfmodel.store.shadow.asked_questions import AskedQuestion, AskedQuestionStore
from perfmodel.store.shadow.comparisons import Comparison, ComparisonStore
from perfmodel.store.shadow.shadow_runs import MOST_ATTEMPTS, ShadowRunStore
from perfmodel.store.sql.connections import Connections
from perfmodel.store.state.jobs import StoredJob
from perfmodel.store.state.observation_records import ObservationState, StoredObservation
from perfmodel.store.state.observations import ObservationStore

ONE = Comparison(
    question="a", label="job", device="T4", mode="training", family="resnet",
    placement_kind="one accelerator", job_family="f", batch_size=64, accumulation_steps=1,
    placement='"t4"', named_placement='"T4"', serving_s=0.1, shadow_s=0.2, answered_ratio=0.5,
)  # fmt: skip


@pytest.fixture
def connections(migrated_url: str) -> Iterator[Connections]:
    made = Connections(migrated_url)
    yield made
    made.close()


def _asked(*texts: str) -> list[AskedQuestion]:
    return [AskedQuestion(content=text) for text in texts]


def _contents(store: AskedQuestionStore) -> list[str]:
    return [one.content for one in store.newest()]


def test_the_questions_asked_last_are_kept_each_once(connections: Connections) -> None:
    store = AskedQuestionStore(connections, most=3, most_bytes=1_000)
    store.put(_asked("a", "b"))
    # As another process would.
    AskedQuestionStore(connections, most=3, most_bytes=1_000).put(_asked("c", "a", "d", "a"))
    assert _contents(store) == ["d", "a", "c"]
    store.put([])
    assert store.count() == 3


def test_questions_take_no_more_than_they_may(connections: Connections) -> None:
    store = AskedQuestionStore(connections, most=100, most_bytes=10)
    # Four bytes of two characters each.
    store.put(_asked("éé", "aaaa", "bb"))
    assert _contents(store) == ["bb", "aaaa", "éé"]
    store.put(_asked("c"))
    assert _contents(store) == ["c", "bb", "aaaa"]


def test_what_is_asked_waits_until_it_is_compared(connections: Connections) -> None:
    asked = AskedQuestionStore(connections, most=3, most_bytes=1_000)
    asked.put(_asked("a", "b"))
    store = ComparisonStore(connections)
    assert (store.waiting("v/2", "v/1"), store.last_against("v/2")) == (2, None)
    [b, _] = asked.newest()
    store.add("v/2", "v/1", [replace(ONE, question=b.key)])
    store.add("v/2", "v/1", [replace(ONE, question=b.key, shadow_s=9.0)])
    assert (store.waiting("v/2", "v/1"), store.waiting("v/2", "v/3")) == (1, 2)
    [kept] = store.of_pair("v/2", "v/1")
    # The first one stands.
    assert (kept.shadow_s, kept.compared_at != "") == (0.2, True)
    assert (store.compared("v/2", "v/1"), store.last_against("v/2")) == ({b.key}, "v/1")


def test_old_comparisons_go(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfmodel.store.shadow import comparisons

    monkeypatch.setattr(comparisons, "MOST_OF_A_PAIR", 2)
    monkeypatch.setattr(comparisons, "MOST_PAIRS", 2)
    store = ComparisonStore(connections)
    store.add("v/2", "v/1", [replace(ONE, question=key) for key in "abc"])
    assert store.compared("v/2", "v/1") == {"b", "c"}
    store.add("v/3", "v/1", [ONE])
    store.add("v/4", "v/1", [ONE])
    assert [store.compared(f"v/{number}", "v/1") for number in (2, 3, 4)] == [set(), {"a"}, {"a"}]


def test_what_was_measured_of_a_question_is_found(connections: Connections) -> None:
    store = ComparisonStore(connections)
    store.add("v/2", "v/1", [ONE, replace(ONE, question="b", batch_size=32)])
    seen = StoredObservation(
        job=StoredJob(ref="r", family="f", content="{}"), key="1", content_hash="1",
        placement='"T4"', batch_size=64, accumulation_steps=1, step_time_s=0.11, sync_time_s=None,
    )  # fmt: skip
    ObservationStore(connections).add(
        [
            seen,
            replace(seen, key="2", placement='"t4"', step_time_s=0.12),
            replace(seen, key="3", placement='"A10"'),
            replace(seen, key="4", accumulation_steps=2),
            replace(seen, key="5", state=ObservationState.QUARANTINED),
            replace(seen, key="6", job=StoredJob(ref="s", family="g", content="{}")),
        ]
    )
    found = store.measured("v/2", "v/1")
    assert {key: sorted(one.step_time_s for one in steps) for key, steps in found.items()} == {
        "a": [0.11, 0.12]
    }


def test_one_process_compares_at_a_time_until_it_failed_too_often(
    connections: Connections,
) -> None:
    runs = ShadowRunStore(connections)
    assert runs.find("v/2") is None
    runs.enter("v/2")
    held = runs.take("v/2", "me", lease_s=60)
    assert held is not None and held.attempts == 1
    assert runs.take("v/2", "you", lease_s=60) is None
    assert (runs.renew("me", ["v/2"], lease_s=60), runs.renew("you", ["v/2"], lease_s=60)) == (
        True, False,
    )  # fmt: skip
    runs.end(held, None)
    again = runs.take("v/2", "you", lease_s=60)
    # One that ended well is no failed attempt.
    assert again is not None and again.attempts == 1
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert again is not None and again.attempts == attempt
        runs.end(again, "damaged")
        again = runs.take("v/2", "you", lease_s=60)
    assert again is None
    found = runs.find("v/2")
    assert found is not None and found.is_given_up and found.problem == "damaged"
    runs.begin_anew("v/2")
    assert runs.take("v/2", "me", lease_s=60) is not None


def test_a_pause_is_kept_and_a_lost_process_replaced(connections: Connections) -> None:
    runs = ShadowRunStore(connections)
    runs.enter("v/2")
    lost = runs.take("v/2", "me", lease_s=-1)
    taken = runs.take("v/2", "you", lease_s=60)
    assert lost is not None and taken is not None and taken.attempts == 2
    runs.end(lost, "too late to say so")
    found = runs.find("v/2")
    assert found is not None and (found.state, found.problem) == ("running", None)
    runs.end(taken, "away", wait_s=60)
    assert runs.take("v/2", "me", lease_s=60) is None

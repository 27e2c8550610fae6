"""Changes of state: folded alike by everybody, whatever order they come in and clocks say."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import DamagedArtifactError
from perfmodel.registry.states import PROMOTE, ROLLBACK, Change, History, State, fold


def change(
    sequence: int,
    version: str,
    state: State = State.SERVING,
    *,
    action: str = PROMOTE,
    change_id: str = "0" * 16,
    previous: str | None = None,
    at: str = "2026-01-01T00:00:00+00:00",
) -> Change:
    return Change(
        sequence=sequence, change_id=change_id, version=version, state=state, action=action,
        by="me", at=at, previous=previous,
    )  # fmt: skip


def back(sequence: int, version: str) -> Change:
    return change(sequence, version, action=ROLLBACK)


def test_without_changes_the_newest_serves_and_older_ones_have() -> None:
    none = fold([])
    assert none.may_serve(["3", "2", "1"]) == ["3", "2", "1"]
    assert [none.state_of(v, ["3", "2", "1"]) for v in "321"] == [
        State.SERVING, State.RETIRED, State.RETIRED,
    ]  # fmt: skip
    assert none.before(["3", "2", "1"]) == ["2", "1"]


def test_a_version_that_was_judged_does_not_serve_by_being_the_newest() -> None:
    for state in (State.CANDIDATE, State.SHADOW, State.REFUSED):
        history = fold([change(1, "3", state, action="judge")])
        assert history.may_serve(["3", "2"]) == ["2"]
        assert history.state_of("3", ["3", "2"]) is state


def test_promoting_retires_and_one_serves() -> None:
    history = fold([change(1, "1"), change(2, "2"), change(3, "3")])
    assert history.serving == "3"
    assert dict(history.states) == {
        "1": State.RETIRED, "2": State.RETIRED, "3": State.SERVING,
    }  # fmt: skip
    assert history.may_serve(["4", "3", "2", "1"]) == ["3", "2", "1"]
    assert history.state_of("4", ["4", "3", "2", "1"]) is State.CANDIDATE


def test_the_first_promotion_remembers_what_served_by_being_the_newest() -> None:
    history = fold([change(1, "3", previous="2")])
    assert (history.served, history.states["2"]) == (("2", "3"), State.RETIRED)
    # One more step back: an older one that nothing was ever said of.
    assert history.before(["3", "2", "1"]) == ["2", "1"]


def test_rolling_back_twice_goes_back_two_versions() -> None:
    three = [change(1, "1"), change(2, "2"), change(3, "3")]
    once = fold([*three, back(4, "2")])
    assert (once.served, once.states["3"]) == (("1", "2"), State.RETIRED)
    twice = fold([*three, back(4, "2"), back(5, "1")])
    assert twice.served == ("1",)
    # And forward again.
    again = fold([*three, back(4, "2"), back(5, "1"), change(6, "3")])
    assert again.served == ("1", "3")


def test_a_rollback_before_any_promotion_does_not_come_back() -> None:
    first = Change(
        sequence=1, change_id="a" * 16, version="1", state=State.SERVING, action=ROLLBACK,
        by="me", at="", previous="2",
    )  # fmt: skip
    assert fold([first]).served == ("1",)
    assert fold([first]).states["2"] is State.RETIRED


def test_a_promotion_during_a_rollback_ends_in_one_of_the_two() -> None:
    before = [change(1, "1"), change(2, "2"), change(3, "3")]
    one = replace(back(4, "2"), change_id="a" * 16)
    other = replace(change(4, "4"), change_id="b" * 16)
    # Both knew three changes; the identifier decides, the same everywhere.
    assert fold([*before, one, other]).served == ("1", "2", "4")
    one, other = replace(one, change_id="c" * 16), other
    history = fold([*before, one, other])
    assert history.served == ("1", "2")
    assert (history.states["3"], history.states["4"]) == (State.RETIRED, State.RETIRED)


def test_what_serves_is_not_taken_away() -> None:
    for state in (State.DELETED, State.REFUSED, State.CANDIDATE):
        history = fold([change(1, "1"), change(2, "2"), change(3, "2", state)])
        assert history.serving == "2" and history.states["2"] is State.SERVING
    gone = fold([change(1, "1"), change(2, "2"), change(3, "1", State.DELETED)])
    assert gone.served == ("2",) and gone.before(["2"]) == []


def test_clocks_decide_nothing() -> None:
    ahead, behind = "2099-01-01T00:00:00+00:00", "1999-01-01T00:00:00+00:00"
    history = fold([change(1, "1", at=ahead), change(2, "2", at=behind)])
    assert history.serving == "2"


_CHANGES = st.lists(
    st.builds(
        change,
        st.integers(1, 4),
        st.sampled_from("123"),
        st.sampled_from([State.SERVING, State.SERVING, State.REFUSED, State.DELETED]),
        action=st.sampled_from([PROMOTE, ROLLBACK]),
        change_id=st.integers(0, 2**64 - 1).map(lambda n: f"{n:016x}"),
        previous=st.sampled_from([None, "1", "2"]),
    ),
    max_size=5,
    unique_by=lambda one: one.file_name,
)


@given(_CHANGES)
def test_every_order_folds_into_the_same(changes: list[Change]) -> None:
    expected = fold(changes)
    for order in list(permutations(changes))[:24]:
        assert fold(order) == expected
    serving = [v for v, state in expected.states.items() if state is State.SERVING]
    assert serving == ([expected.serving] if expected.serving else [])


def test_a_change_is_read_as_it_was_written_and_nothing_else_is() -> None:
    one = change(7, "20260101T000000Z-ab", previous="x")
    content = one.to_bytes()
    assert Change.from_bytes(content, one.file_name) == one
    assert one.file_name == "0000000007-0000000000000000.json"
    for damaged in (
        b"", b"{", b"[]", b"null", content[:-9], content.replace(b'"me"', b'"he"'), content + b" ",
        b'{"sequence": 1}',
    ):  # fmt: skip
        with pytest.raises(DamagedArtifactError, match="does not count"):
            Change.from_bytes(damaged, one.file_name)
    with pytest.raises(DamagedArtifactError):
        Change.from_bytes(content, "0000000008-0000000000000000.json")


def test_a_history_of_nothing() -> None:
    assert fold([]) == History(states={})
    assert fold([]).may_serve([]) == []

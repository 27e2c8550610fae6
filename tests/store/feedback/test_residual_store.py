"""Residuals: one of each believed observation, written by the keeper alone, gone with it."""

from __future__ import annotations

import pytest
from made_up_observations import stored_job, stored_observation
from sqlalchemy import update

from perfmodel.store.feedback import ResidualStore, StoredResidual, Uncompared
from perfmodel.store.feedback.keeper_lease import KeeperLease, Keeping
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.tables import DRIFT_KEEPERS
from perfmodel.store.state.observation_records import ObservationFilter, ObservationState
from perfmodel.store.state.observations import ObservationStore


@pytest.fixture
def observations(connections: Connections) -> ObservationStore:
    return ObservationStore(connections)


@pytest.fixture
def residuals(connections: Connections) -> ResidualStore:
    return ResidualStore(connections)


@pytest.fixture
def keeping(connections: Connections) -> Keeping:
    found = KeeperLease(connections).take("me", lease_s=60.0)
    assert found is not None
    return found


def _residual(one: Uncompared, *, predicted_s: float | None = 0.4) -> StoredResidual:
    return StoredResidual(
        observation=one.number,
        accelerator="T4",
        mode="training",
        operators="products",
        label=one.seen.job.ref,
        model_version="default/1",
        software={"driver": "550.54"},
        predicted_s=predicted_s,
        low_s=0.3,
        high_s=0.5,
        model_s=0.45,
        now_version="default/1",
        now_s=0.45,
    )


def test_each_believed_observation_is_compared_once(
    observations: ObservationStore, residuals: ResidualStore, keeping: Keeping
) -> None:
    observations.add(
        [stored_observation("a", step_time_s=0.6), stored_observation("b", reason="?")]
    )
    observations.add([stored_observation("c", job=stored_job("other"))])
    first, second = residuals.uncompared(limit=10)
    assert [(one.seen.key, one.seen.job.content != "") for one in (first, second)] == [
        ("a", True), ("c", True),
    ]  # fmt: skip
    assert first.revision < second.revision
    assert residuals.counts() == (0, 0, 2)
    assert residuals.add(keeping, [_residual(first)])
    assert residuals.add(keeping, [_residual(first, predicted_s=9.0), _residual(second)])
    assert residuals.uncompared(limit=10) == ()
    kept = residuals.newest(10)
    assert [(one.predicted_s, one.measured_s, one.family) for one in kept] == [
        (0.4, 0.6, "a"), (0.4, 0.5, "other"),
    ]  # fmt: skip
    assert kept == residuals.after(0, limit=10)
    assert kept[1:] == residuals.after(first.number, limit=10)
    assert kept[0].software == {"driver": "550.54"}


def test_residuals_go_and_come_with_their_observations(
    observations: ObservationStore, residuals: ResidualStore, keeping: Keeping
) -> None:
    observations.add([stored_observation(key) for key in "abc"])
    residuals.add(keeping, [_residual(one) for one in residuals.uncompared(limit=10)])
    observations.remove(ObservationFilter(key="b"))
    assert len(residuals.newest(10)) == 2
    which, accepted = ObservationFilter(key="c"), ObservationState.ACCEPTED
    observations.move(which, ObservationState.EXCLUDED, out_of=[accepted])
    assert len(residuals.newest(10)) == 1
    assert residuals.counts() == (1, 0, 0)
    observations.move(which, accepted, out_of=[ObservationState.EXCLUDED])
    assert len(residuals.newest(10)) == 2
    # Numbers may be given again: what was compared with a row that is gone is of no other.
    observations.remove(ObservationFilter(key="c"))
    observations.add([stored_observation("d")])
    (again,) = residuals.uncompared(limit=10)
    assert again.seen.key == "d"


def test_what_was_removed_meanwhile_is_not_kept(
    observations: ObservationStore, residuals: ResidualStore, keeping: Keeping
) -> None:
    observations.add([stored_observation("a")])
    (one,) = residuals.uncompared(limit=10)
    observations.remove(ObservationFilter(key="a"))
    assert residuals.add(keeping, [_residual(one)])
    assert residuals.newest_number() == 0


def test_only_the_keeper_writes(
    connections: Connections, observations: ObservationStore, residuals: ResidualStore,
    keeping: Keeping,
) -> None:  # fmt: skip
    lease = KeeperLease(connections)
    assert lease.take("you", lease_s=60.0) is None
    with connections.writing() as connection:  # as if the time of its lease had run out
        connection.execute(update(DRIFT_KEEPERS).values(lease_until=0.0))
    other = lease.take("you", lease_s=60.0)
    assert other is not None
    assert not lease.renew(keeping.owner, [keeping.name], lease_s=60.0)
    observations.add([stored_observation("a")])
    (one,) = residuals.uncompared(limit=10)
    assert not residuals.add(keeping, [_residual(one)])
    assert residuals.newest(10) == ()
    assert residuals.add(other, [_residual(one)])
    assert not residuals.set_now(keeping, "default/2", {one.number: 0.1})


def test_another_version_is_asked_about_the_newest(
    observations: ObservationStore, residuals: ResidualStore, keeping: Keeping
) -> None:
    observations.add([stored_observation(key) for key in "abcd"])
    residuals.add(keeping, [_residual(one) for one in residuals.uncompared(limit=10)])
    asked = residuals.outdated("default/2", among=3, limit=2)
    assert [one.seen.key for one in asked] == ["d", "c"]
    residuals.set_now(keeping, "default/2", {asked[0].number: 0.55, asked[1].number: None})
    assert [one.seen.key for one in residuals.outdated("default/2", among=3, limit=2)] == ["b"]
    newest = residuals.newest(1)[0]
    assert (newest.now_version, newest.now_s, newest.model_s) == ("default/2", 0.55, 0.45)


def test_what_counted_before_a_transaction_is_read_back(
    observations: ObservationStore, residuals: ResidualStore
) -> None:
    observations.add([stored_observation("a", step_time_s=0.1)])
    observations.add([stored_observation(key, step_time_s=0.2) for key in "bc"])
    a, b, c = residuals.uncompared(limit=10)
    assert observations.counting("a", before_revision=a.revision) == ()
    for one in (b, c):
        before = observations.counting("a", before_revision=one.revision)
        assert [seen.key for seen in before] == ["a"]

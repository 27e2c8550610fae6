"""Alarms as they are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmodel.store.feedback import Alarm, AlarmState, AlarmStore, Doubt, Remedy
from perfmodel.store.feedback.keeper_lease import KeeperLease, Keeping
from perfmodel.store.sql.connections import Connections

ALARM = Alarm(
    name="a1",
    kind="accelerator",
    value="T4",
    state=AlarmState.OPEN,
    shift=0.25,
    count=9,
    since_observation=3,
    opened_observation=12,
    since="2026-01-01T00:00:00.000+00:00",
    opened_at="2026-01-01T01:00:00.000+00:00",
    also=("reporter 4f1c",),
    remedies=(Remedy(action="retrain", why="so", command="perfmodel retrain"),),
    doubts=(Doubt(job="ab", batch_size=8, accelerator="T4"),),
)


@pytest.fixture
def keeping(connections: Connections) -> Keeping:
    found = KeeperLease(connections).take("me", lease_s=60.0)
    assert found is not None
    return found


def test_open_alarms_say_what_to_do_until_they_end(
    connections: Connections, keeping: Keeping
) -> None:
    alarms = AlarmStore(connections)
    assert alarms.write(keeping, [ALARM])
    assert alarms.open_alarms() == (ALARM,)
    ended = replace(ALARM, state=AlarmState.ENDED, ended_at="later", ended_because="fine")
    assert alarms.write(keeping, [ended])
    assert alarms.open_alarms() == ()
    assert alarms.page(state=AlarmState.ENDED).items == (ended,)


def test_who_knows_of_an_alarm_stays_known(connections: Connections, keeping: Keeping) -> None:
    alarms = AlarmStore(connections)
    assert not alarms.acknowledge("a1", by="me")
    alarms.write(keeping, [ALARM])
    assert alarms.acknowledge("a1", by="me", note="fans")
    alarms.write(keeping, [replace(ALARM, shift=0.3)])
    (found,) = alarms.open_alarms()
    assert (found.acknowledged_by, found.note, found.shift) == ("me", "fans", 0.3)


def test_each_state_is_told_by_one_process(connections: Connections, keeping: Keeping) -> None:
    alarms, others = AlarmStore(connections), AlarmStore(connections)
    alarms.write(keeping, [ALARM])
    assert others.to_tell() == (ALARM,)
    assert alarms.take_to_tell(ALARM) and not others.take_to_tell(ALARM)
    assert alarms.to_tell() == ()
    ended = replace(ALARM, state=AlarmState.ENDED)
    alarms.write(keeping, [ended])
    assert [one.state for one in alarms.to_tell()] == [AlarmState.ENDED]
    assert not alarms.take_to_tell(ALARM), "it is open no more"
    assert alarms.take_to_tell(ended) and not others.take_to_tell(ended)


def test_an_alarm_that_ended_before_it_was_told_is_no_news(
    connections: Connections, keeping: Keeping
) -> None:
    alarms = AlarmStore(connections)
    alarms.write(keeping, [replace(ALARM, state=AlarmState.ENDED)])
    assert alarms.to_tell() == ()

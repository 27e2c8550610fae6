"""Records in rows, by the types of their fields."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import create_engine, insert, select

from perfmodel.store.feedback import Alarm, AlarmState, Doubt, Remedy
from perfmodel.store.sql.shared_store import record_from, row_of
from perfmodel.store.sql.tables import ALARMS, METADATA

ALARM = Alarm(
    name="a", kind="accelerator", value="T4", state=AlarmState.OPEN, shift=0.25, count=8,
    since_observation=1, opened_observation=9, since="then", opened_at="now",
    also=("software torch 2.9",), remedies=(Remedy(action="retrain", why="drift", command="x"),),
    doubts=(Doubt(job="j", batch_size=4, accelerator="T4"),),
)  # fmt: skip


def test_a_record_comes_back_from_its_row() -> None:
    engine = create_engine("sqlite://")
    METADATA.create_all(engine, tables=[ALARMS])
    with engine.begin() as connection:
        connection.execute(insert(ALARMS).values(**row_of(ALARM)))
        row = connection.execute(select(ALARMS)).one()
    assert row.state == "open" and row.also == '["software torch 2.9"]'
    assert record_from(Alarm, row) == ALARM
    assert record_from(Alarm, row, note="seen") == replace(ALARM, note="seen")

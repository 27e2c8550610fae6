"""What starts a retraining by itself: one decision for all, by the clock of the database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from perfmodel.errors import InvalidInputError
from perfmodel.retraining.triggers import TriggerRules, decide, look, next_time
from perfmodel.store.feedback.alarm_records import Alarm, AlarmState, Remedy
from perfmodel.store.retraining import RetrainingStore, TriggerStore
from perfmodel.store.retraining.retraining_marks import Arrivals, Mark, read_mark, write_mark
from perfmodel.store.retraining.retraining_records import Retraining, RetrainingState, Trigger
from perfmodel.store.sql.connections import Connections
from perfmodel.store.sql.shared_store import row_of
from perfmodel.store.sql.tables import ALARMS, CAMPAIGN_TASKS, OBSERVATIONS, RETRAINING_MARKS

HOUR_S = 3600.0
#: Midnight of a day, UTC.
DAY_S = 20_000 * 24 * HOUR_S
NIGHTLY = TriggerRules(cron="0 3 * * *")
NOTHING = Arrivals(time_s=DAY_S, observations=0, records=0, alarm=None, is_open=False)
ALARM = Alarm(
    name="a1", kind="software", value="torch 2.9", state=AlarmState.OPEN, shift=0.3, count=20,
    since_observation=1, opened_observation=2, since="2026-01-01", opened_at="2026-01-02",
    remedies=(Remedy(action="retrain", why="it learns", command="perfmodel retrain"),),
)  # fmt: skip


def at(hours: float, **more: object) -> Arrivals:
    return replace(NOTHING, time_s=DAY_S + hours * HOUR_S, **more)  # type: ignore[arg-type]


# -- times ------------------------------------------------------------------------------------


def test_a_time_that_comes_starts_one_and_the_next_is_a_day_later() -> None:
    first = decide(NIGHTLY, None, at(0))
    assert first.trigger is None and first.mark.due_at == DAY_S + 3 * HOUR_S
    assert decide(NIGHTLY, first.mark, at(2.99)).trigger is None
    found = decide(NIGHTLY, first.mark, at(3.01))
    assert found.trigger is Trigger.CRON and found.why == "the time of '0 3 * * *'"
    assert found.mark.due_at == DAY_S + 27 * HOUR_S


def test_times_that_were_slept_through_are_one() -> None:
    mark = decide(NIGHTLY, None, at(0)).mark
    found = decide(NIGHTLY, mark, at(24 * 10))
    assert found.trigger is Trigger.CRON
    assert decide(NIGHTLY, found.mark, at(24 * 10 + 0.1)).trigger is None


def test_a_clock_that_goes_back_puts_nothing_off() -> None:
    mark = decide(NIGHTLY, None, at(24 * 30)).mark
    mark = replace(mark, entered_at=DAY_S + 24 * 30 * HOUR_S)
    back = decide(NIGHTLY, mark, at(2))
    # Due a month later it would have been; it is at three of this very day, and the last one was
    # entered no later than now.
    assert back.trigger is None and back.mark.due_at == DAY_S + 3 * HOUR_S
    assert back.mark.entered_at == DAY_S + 2 * HOUR_S
    assert decide(NIGHTLY, back.mark, at(3.01)).trigger is Trigger.CRON


def test_a_time_that_falls_into_another_retraining_is_passed_over() -> None:
    mark = Mark(cron=NIGHTLY.cron, due_at=DAY_S + 3 * HOUR_S)
    found = decide(NIGHTLY, mark, at(3.01, is_open=True))
    assert found.trigger is None and found.mark.due_at == DAY_S + 27 * HOUR_S
    soon = decide(NIGHTLY, replace(mark, entered_at=DAY_S + 2.5 * HOUR_S), at(3.01))
    assert soon.trigger is None and soon.mark.due_at == DAY_S + 27 * HOUR_S


def test_another_expression_begins_anew() -> None:
    mark = Mark(cron="0 1 * * *", due_at=DAY_S + HOUR_S)
    found = decide(NIGHTLY, mark, at(2))
    assert found.trigger is None and found.mark.due_at == DAY_S + 3 * HOUR_S
    assert decide(TriggerRules(after_records=1), mark, at(2)).mark == Mark()


@pytest.mark.parametrize(
    "cron",
    ["", "at night", "0 3 * *", "61 3 * * *", "0 0 31 2 *", "* * * * * *", "R R * * *", "@daily",
     "H * * * *", "0 3 * * 9", "\0"],
)  # fmt: skip
def test_what_names_no_time_is_refused(cron: str) -> None:
    with pytest.raises(InvalidInputError, match="minute, hour"):
        next_time(cron, 0.0)
    if cron:
        with pytest.raises(InvalidInputError):
            TriggerRules(cron=cron)


def test_times_of_the_week_are_in_utc() -> None:
    # 1970 began on a Thursday: the first Friday at half past four.
    assert next_time("30 4 * * fri", 0.0) == (24 + 4.5) * HOUR_S


# -- what came in -----------------------------------------------------------------------------


def test_observations_records_and_alarms_start_one() -> None:
    rules = TriggerRules(after_observations=10, after_records=5, on_drift=True)
    mark = Mark(records=100)
    assert decide(rules, mark, at(1, observations=9, records=104)).trigger is None
    counted = decide(rules, mark, at(1, observations=10))
    assert (counted.trigger, counted.why) == (Trigger.COUNT, "10 new observations")
    measured = decide(rules, mark, at(1, records=105))
    assert (measured.trigger, measured.why) == (Trigger.COUNT, "5 new campaign records")
    drifted = decide(rules, mark, at(1, observations=10, alarm=ALARM))
    assert (drifted.trigger, drifted.why) == (Trigger.DRIFT, "alarm a1: software torch 2.9")
    # And nothing that was not asked for.
    assert decide(NIGHTLY, Mark(), at(1, observations=99, records=99, alarm=ALARM)).trigger is None


def test_what_comes_in_waits_for_the_least_time_and_for_an_open_one() -> None:
    rules = TriggerRules(after_observations=1, least_s=HOUR_S)
    mark = Mark(entered_at=DAY_S)
    assert decide(rules, mark, at(0.99, observations=1)).trigger is None
    assert decide(rules, mark, at(1.01, observations=1, is_open=True)).trigger is None
    assert decide(rules, mark, at(1.01, observations=1)).trigger is Trigger.COUNT


# -- in the database --------------------------------------------------------------------------


@pytest.fixture
def connections(migrated_url: str) -> Iterator[Connections]:
    found = Connections(migrated_url)
    yield found
    found.close()


def observe(connections: Connections, numbers: range, *, state: str = "accepted") -> None:
    rows = [
        {"family": "f", "key": f"{number}", "content_hash": "h", "job_ref": "j", "placement": "T4",
         "batch_size": 1, "accumulation_steps": 1, "step_time_s": 1.0, "state": state,
         "revision": number, "received_at": "2026-01-01", "reporter": "r"}
        for number in numbers
    ]  # fmt: skip
    with connections.writing() as connection:
        connection.execute(insert(OBSERVATIONS), rows)


def end(connections: Connections, name: str | None) -> Retraining:
    assert name is not None
    store = RetrainingStore(connections)
    store.cancel(name)
    found = store.find(name)
    assert found is not None and found.state is RetrainingState.CANCELLED
    return found


def test_new_observations_are_counted_from_the_last_retraining_whoever_entered_it(
    connections: Connections,
) -> None:
    triggers = TriggerStore(connections)
    rules = TriggerRules(after_observations=3, least_s=0.0, settings={"tune": 2})
    observe(connections, range(2))
    observe(connections, range(2, 9), state="quarantined")
    assert look(triggers, rules) is None
    observe(connections, range(9, 11))
    started = look(triggers, rules)
    assert look(triggers, rules) is None  # it is open
    found = end(connections, started)
    assert (found.trigger, found.caller) == (Trigger.COUNT, "by itself")
    assert found.settings == {"tune": 2} and found.why == "3 new observations"
    assert look(triggers, rules) is None  # they were counted
    observe(connections, range(11, 13))
    by_hand, created = RetrainingStore(connections).start("default")
    assert created
    end(connections, by_hand.name)
    observe(connections, range(13, 15))
    assert look(triggers, rules) is None  # of four new ones it took two along
    observe(connections, range(15, 16))
    assert look(triggers, rules) is not None


def test_finished_campaign_tasks_and_alarms_start_one_each(connections: Connections) -> None:
    triggers = TriggerStore(connections)
    rules = TriggerRules(after_records=2, on_drift=True, least_s=0.0)
    task = {
        "campaign": "c", "accelerator": "cpu", "job": "{}", "turn": 0.0, "owner": "",
        "attempts": 1, "lease_until": 0.0, "outcome": "{}", "checked": True, "created_at": "",
        "updated_at": "",
    }  # fmt: skip
    rows = [{**task, "name": f"t{n}", "state": s} for n, s in enumerate(["done", "done", "failed"])]
    with connections.writing() as connection:
        connection.execute(insert(CAMPAIGN_TASKS), rows)
    assert end(connections, look(triggers, rules)).why == "2 new campaign records"
    assert look(triggers, rules) is None
    other = replace(ALARM, name="a2", remedies=(Remedy(action="exclude", why="", command=""),))
    known = replace(ALARM, name="a3", acknowledged_at="2026-01-03")
    with connections.writing() as connection:
        connection.execute(insert(ALARMS), [row_of(other), row_of(known)])
    assert look(triggers, rules) is None
    with connections.writing() as connection:
        connection.execute(insert(ALARMS), [row_of(ALARM)])
    found = end(connections, look(triggers, rules))
    assert found.trigger is Trigger.DRIFT and "torch 2.9" in found.why
    # It still stands after that retraining, and starts no other one.
    assert look(triggers, rules) is None


def test_nothing_is_started_without_a_rule(connections: Connections) -> None:
    observe(connections, range(5))
    assert look(TriggerStore(connections), TriggerRules()) is None
    assert RetrainingStore(connections).page().items == ()


def test_the_time_is_that_of_the_database(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    triggers, rules = TriggerStore(connections), TriggerRules(cron="* * * * *", least_s=0.0)
    assert look(triggers, rules) is None
    # A host whose own clock is days ahead.
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert look(triggers, rules) is None
    with connections.writing() as connection:
        mark = read_mark(connection, "default")
        assert mark is not None and mark.cron == "* * * * *"
        # The clock of the database jumps forward: its time has come long ago.
        write_mark(connection, "default", replace(mark, due_at=mark.due_at - 7200))
    assert end(connections, look(triggers, rules)).trigger is Trigger.CRON
    with connections.writing() as connection:
        mark = read_mark(connection, "default")
        assert mark is not None
        # And back, by a day.
        later = replace(mark, due_at=mark.due_at + 86_400, entered_at=mark.entered_at + 86_400)
        write_mark(connection, "default", later)
    assert look(triggers, rules) is None
    with connections.reading() as connection:
        found = read_mark(connection, "default")
    assert found is not None and found.due_at <= mark.due_at + 120


#: Looks again and again until its input ends, and tells what it started.
CHILD = """
import json, sys, threading
from perfmodel.retraining.triggers import TriggerRules, look
from perfmodel.store.retraining import TriggerStore
from perfmodel.store.sql.connections import Connections
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
connections = Connections(sys.argv[1])
store, rules = TriggerStore(connections), TriggerRules(cron="* * * * *", least_s=0.0)
looks, started = 0, []
print("ready", flush=True)
while not ended.is_set():
    name = look(store, rules)
    started += [name] if name else []
    looks += 1
    if looks == 3:
        print("looked", flush=True)
connections.close()
print(json.dumps({"started": started}))
"""


def test_two_processes_start_one_retraining_each_time(
    new_migrated_url: Callable[[], str],
) -> None:
    url = new_migrated_url()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    connections = Connections(url)
    store = RetrainingStore(connections)
    for child in children:
        assert child.stdout is not None
        assert [child.stdout.readline().strip() for _ in range(2)] == ["ready", "looked"]
    begun: list[str] = []
    for _ in range(6):
        with connections.writing() as connection:
            # A minute passes for everybody.
            connection.execute(update(RETRAINING_MARKS).values(due_at=1.0))
        begun.append(_awaited(store, begun))
        store.cancel(begun[-1])
    told = []
    for child in children:
        out, _ = child.communicate()
        told.append(json.loads(out.splitlines()[-1]))
    connections.close()
    started = [name for one in told for name in one["started"]]
    # A real minute may have passed as well, which starts one more.
    assert set(begun) <= set(started) and len(started) == len(set(started)) <= len(begun) + 2


def _awaited(store: RetrainingStore, known: list[str]) -> str:
    while True:
        for newest in store.page(model="default", limit=1).items:
            if newest.name not in known:
                return newest.name

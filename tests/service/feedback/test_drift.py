"""``/v1/drift``: a card slows down, it is named, something is done, and it is fine again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from drifting_cluster import CARDS, JOBS, Drifting
from guarded_service import make_app
from reported_service import Reported
from running import running
from sqlalchemy import update
from waiting import PATIENCE_S, until

from perfmodel.cli import cli
from perfmodel.client import Client
from perfmodel.store.sql.leases import clock
from perfmodel.store.sql.tables import DRIFT_KEEPERS, RESIDUALS
from service.schemas.state_bodies import DriftAnswer
from service.state.state import State


@pytest.fixture
def cluster(reported: Reported) -> Drifting:
    return Drifting(reported.client, reported.admin)


def test_a_card_that_slows_down_is_named_until_answers_fit_again(
    reported: Reported, cluster: Drifting
) -> None:
    client, admin = reported.client, reported.admin
    cluster.report(64)
    before = cluster.drift()
    assert before["alarms"] == [] and before["problems"] == []
    cluster.report(40, slow={"T4": 1.4})
    (alarm,) = cluster.alarms(1, "open")
    assert (alarm["kind"], alarm["value"]) == ("accelerator", "T4")
    assert alarm["shift"] == pytest.approx(0.336, abs=0.08)  # ln 1.4
    assert [one["action"] for one in alarm["remedies"]] == ["calibrate", "probe", "retrain"]
    assert {one["accelerator"] for one in alarm["doubts"]} == {"T4"}
    assert 'perfmodel_drift_alarms{kind="accelerator"} 1.0' in client.get(
        "/metrics", headers=admin
    ).text  # fmt: skip
    for which, count in (("none", 0), ("no/name", 0), (alarm["id"], 1)):
        path = f"/v1/drift/acknowledge?alarm={which}&note=fans"
        assert client.post(path, headers=admin).json() == {"acknowledged": count}
    (known,) = cluster.alarms(1, "open")
    assert known["note"] == "fans"
    # The service has learned from what it was told: its answers fit, and the alarm ends.
    cluster.report(136, slow={"T4": 1.4})
    (ended,) = cluster.alarms(1, "ended")
    assert ended["id"] == alarm["id"] and ended["acknowledged_by"] and ended["ended_because"]
    response = client.get("/v1/drift", headers=admin)
    DriftAnswer.model_validate_json(response.content, strict=True)


def test_an_alarm_that_goes_on_under_its_name_ends_under_it(
    reported: Reported, cluster: Drifting
) -> None:
    cluster.report(64)
    cluster.drift()
    cluster.report(40, slow={"T4": 1.4})
    (alarm,) = cluster.alarms(1, "open")
    # Without the first slow steps it would have been opened later; it is the same all the same.
    for number in range(65, 81):
        reported.client.delete(f"/v1/observations?key=step-{number}", headers=reported.admin)
    cluster.drift(compared=88)

    def goes_on() -> bool:
        (known,) = cluster.alarms(1, "open")
        assert known["id"] == alarm["id"]
        return bool(known["opened_at"] > alarm["opened_at"])

    until(goes_on)
    cluster.report(136, slow={"T4": 1.4})
    (ended,) = cluster.alarms(1, "ended")
    assert ended["id"] == alarm["id"] and "as small as answers say" in ended["ended_because"]
    assert cluster.alarms(0, "open") == []


def test_who_is_the_keeper_no_more_tells_of_no_alarm(reported: Reported, cluster: Drifting) -> None:
    def told(count: float) -> bool:
        text = reported.client.get("/metrics", headers=reported.admin).text
        return f'perfmodel_drift_alarms{{kind="accelerator"}} {count}' in text

    cluster.report(64)
    cluster.drift()
    cluster.report(40, slow={"T4": 1.4})
    until(lambda: told(1.0))
    # Of several hosts another one goes on, and this one would tell of it for ever.
    state: State = reported.app.state.dispatcher.state
    with state.database.connections.writing() as connection:
        connection.execute(
            update(DRIFT_KEEPERS).values(
                owner="another", attempts=99, lease_until=clock(connection) + 3_600.0
            )
        )
    until(lambda: told(0.0))


def test_each_is_compared_with_what_was_answered_before_it_counted(
    reported: Reported, cluster: Drifting
) -> None:
    job, card = JOBS[0], CARDS[0]
    answers = []
    for turn in range(3):
        answer = cluster.predicted(job, card)
        answers.append(answer["step_time_s"])
        seen = {"job": job, "placement": card, "step_time_s": 1.5 * answers[0], "key": f"k{turn}"}
        reported.client.post(
            "/v1/observations", json={"observations": [seen]}, headers=reported.admin
        )
    cluster.drift(compared=3)
    kept = reported.app.state.dispatcher.state.residuals.newest(10)
    assert [one.predicted_s for one in kept] == answers
    assert answers[1] > answers[0]
    assert [one.model_s for one in kept] == 3 * [answers[0]]
    assert {(one.accelerator, one.mode, one.operators) for one in kept} == {
        (card, "training", "products")
    }


def test_other_jobs_are_heard_as_they_were_before_it_counted(
    reported: Reported, cluster: Drifting
) -> None:
    card = CARDS[0]
    answers = [cluster.predicted(job, card)["step_time_s"] for job in JOBS[:5]]

    def report(first: int, last: int) -> None:
        seen = [
            {"job": JOBS[at], "placement": card, "step_time_s": 1.6 * answers[at], "key": f"k{at}"}
            for at in range(first, last)
        ]
        body = {"observations": seen}
        taken = reported.client.post("/v1/observations", json=body, headers=reported.admin)
        assert taken.json()["accepted"] == last - first

    report(0, 4)  # together: none of them was known when the others were asked about
    until(lambda: cluster.predicted(JOBS[4], card)["step_time_s"] != answers[4])
    with_others = cluster.predicted(JOBS[4], card)["step_time_s"]
    report(4, 5)
    cluster.drift(compared=5)
    kept = reported.app.state.dispatcher.state.residuals.newest(10)
    assert [one.predicted_s for one in kept] == [*answers[:4], with_others]


def test_the_version_that_serves_by_now_is_asked_about_what_was_compared_before(
    reported: Reported, cluster: Drifting
) -> None:
    cluster.report(8)
    cluster.drift()
    state, keeper = reported.app.state.dispatcher.state, reported.app.state.drift_keeper
    kept = state.residuals.newest(10)
    with state.database.connections.writing() as connection:  # as another version left it
        connection.execute(update(RESIDUALS).values(now_version="default/old", now_s=9.0))
    keeper._now_version = "default/old"
    until(lambda: state.residuals.newest(10) == kept, every_s=0.1)


def test_job_types_are_compared_once_something_was_observed_of_them(
    reported: Reported, cluster: Drifting
) -> None:
    for turn in range(2):
        seen = {"job": {"job_type": "LM", "mode": "training", "batch_size": 8},
                "placement": "T4", "step_time_s": 0.5, "key": f"k{turn}"}  # fmt: skip
        answer = reported.client.post(
            "/v1/observations", json={"observations": [seen]}, headers=reported.admin
        )
        assert answer.json()["accepted"] == 1
    found = cluster.drift(compared=1)
    assert found["left_out"] == 1
    (first, second) = reported.app.state.dispatcher.state.residuals.newest(10)
    assert first.reason == "Nothing had been observed of the job type."
    assert second.predicted_s == pytest.approx(0.5, rel=0.05) and second.model_s is None


def test_what_to_do_about_an_alarm_can_be_done(reported: Reported, cluster: Drifting) -> None:
    client, admin = reported.client, reported.admin
    nothing = client.post("/v1/drift/campaign", json={}, headers=admin)
    assert (nothing.status_code, nothing.json()) == (200, {"campaigns": []})
    database = str(reported.app.state.settings.database)
    none = CliRunner().invoke(
        cli, ["campaign", "create", "--from", "drift", "--database", database]
    )
    assert none.exit_code == 2 and "No open alarm" in none.stderr
    cluster.report(64)
    cluster.drift()
    cluster.report(40, slow={"T4": 1.5})
    (alarm,) = cluster.alarms(1, "open")
    _check_campaigns(reported, alarm)
    _check_command(reported, alarm)
    # What is taken back takes its alarm with it.
    for number in range(65, 105):
        client.delete(f"/v1/observations?key=step-{number}", headers=admin)
    (ended,) = cluster.alarms(1, "ended")
    assert "taken back" in ended["ended_because"]
    assert cluster.drift(compared=64)["waiting"] == 0


def _check_campaigns(reported: Reported, alarm: dict[str, Any]) -> None:
    """Over HTTP and at the command line a campaign is made of what is doubted."""
    client, admin = reported.client, reported.admin
    made = client.post("/v1/drift/campaign", json={"policy": {"budget_s": 60}}, headers=admin)
    (campaign,) = made.json()["campaigns"]
    assert made.status_code == 201 and campaign["created"]
    shown = client.get(f"/v1/campaigns/{campaign['id']}", headers=admin).json()
    assert (shown["policy"]["order"], shown["title"]) == ("adaptive", "doubted on T4")
    tasks = client.get(f"/v1/campaigns/{campaign['id']}/results", headers=admin).json()["tasks"]
    assert len(tasks) == len(alarm["doubts"]) == campaign["total"]
    assert {task["accelerator"] for task in tasks} == {"T4"}
    database = str(reported.app.state.settings.database)
    run = CliRunner().invoke(
        cli, ["campaign", "create", "--from", "drift", "--database", database, "--json"]
    )
    (at_the_command_line,) = json.loads(run.stdout)["campaigns"]
    assert at_the_command_line["tasks"] == campaign["total"]
    both = CliRunner().invoke(cli, ["campaign", "create", "zoo/mlp", "--from", "drift"])
    assert both.exit_code == 2


def _check_command(reported: Reported, alarm: dict[str, Any]) -> None:
    """`perfmodel drift` reads a database and asks a service."""
    database = str(reported.app.state.settings.database)
    read = CliRunner().invoke(cli, ["drift", "--database", database])
    assert read.exit_code == 4, "an alarm is open that nobody knows of"
    assert "accelerator T4: steps take 1." in read.stdout and "perfmodel retrain" in read.stdout
    noted = CliRunner().invoke(
        cli, ["drift", "acknowledge", alarm["id"], "--database", database, "--by", "me"]
    )
    assert noted.exit_code == 0, noted.output
    unknown = CliRunner().invoke(cli, ["drift", "acknowledge", "none", "--database", database])
    assert unknown.exit_code == 2
    (told,) = reported.client.get("/v1/drift", headers=reported.admin).json()["alarms"]
    assert told["acknowledged_by"] == "me"


def test_the_command_asks_a_service(tmp_path: Path) -> None:
    with running(make_app(tmp_path)) as url:
        asked = CliRunner().invoke(cli, ["drift", "--json"], env={"PERFMODEL_URL": url})
        assert asked.exit_code == 0, asked.output
        with Client(url, timeout_s=PATIENCE_S) as service:
            assert asdict(service.drift()) == json.loads(asked.stdout, object_hook=_tuples)


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(one) if isinstance(one, list) else one for name, one in values.items()}


def test_versions_of_software_are_checked_and_told_again(reported: Reported) -> None:
    asked = {"job": JOBS[0], "placement": "T4"}
    answer = reported.client.post("/v1/predict", json=asked, headers=reported.admin).json()
    seen = {**asked, "step_time_s": answer["step_time_s"]}

    def sent(software: object) -> dict[str, object]:
        body = {"observations": [{**seen, "software": software}]}
        answer = reported.client.post("/v1/observations", json=body, headers=reported.admin)
        found: dict[str, object] = answer.json()
        return found

    for wrong in ("550", {"driver": 550}, {"": "1"}, {"driver": "x" * 65}, {"a\n": "1"}):
        assert "pointer" in str(sent(wrong)), wrong
    assert sent({"driver": "550.54.15"})["accepted"] == 1
    assert sent({"driver": "550.54.15"})["known"] == 1
    assert sent({"driver": "560.1"})["accepted"] == 1, "another release is another observation"
    listed = reported.client.get("/v1/observations", headers=reported.admin).json()["observations"]
    assert [one["software"] for one in listed] == [{"driver": "560.1"}, {"driver": "550.54.15"}]

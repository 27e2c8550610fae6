"""Two processes of a service that let a model be learned anew by themselves."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from asking import Service
from click.testing import CliRunner
from migrated import migrated_sqlite
from service_process import service_process
from waiting import until

from perfmodel.cli import cli
from perfmodel.errors import InvalidInputError
from perfmodel.store.retraining import RetrainingStore, TriggerStore
from perfmodel.store.sql.connections import Connections
from service.metrics.registry import Metrics
from service.retraining.keeper import POLL_S, RetrainingKeeper, command_of, rules_of
from service.settings import Settings

ENVIRONMENT = {
    "PERFMODEL_RETRAIN_AFTER_OBSERVATIONS": "3",
    "PERFMODEL_RETRAIN_SETTINGS": '{"tune": 4, "without": ["timm"]}',
    # What waits is left to a worker elsewhere.
    "PERFMODEL_RETRAIN_HERE": "false",
}


def _observe(service: Service, number: int) -> None:
    body = {
        "job": {"job_type": "ResNet-50", "batch_size": 32, "mode": "training"},
        "placement": f"{number + 1}xT4", "step_time_s": 0.2,
    }  # fmt: skip
    service.ask("/v1/observations", {"observations": [body]})


def _retrainings(service: Service) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.ask("/v1/retrain")["retrainings"]
    return found


def test_two_processes_enter_one_retraining_after_so_many_observations(tmp_path: Path) -> None:
    url = migrated_sqlite(tmp_path)
    with (
        service_process(url, tmp_path, **ENVIRONMENT) as (_, one),
        service_process(url, tmp_path, **ENVIRONMENT) as (_, other),
    ):
        for number in range(2):
            _observe(one, number)
        time.sleep(1.5 * POLL_S)
        assert _retrainings(one) == []
        _observe(other, 2)
        until(lambda: _retrainings(other), every_s=0.1)
        time.sleep(1.5 * POLL_S)
        (found,) = _retrainings(one)
    assert (found["trigger"], found["state"]) == ("count", "waiting")
    assert (found["why"], found["by"]) == ("3 new observations", "by itself")
    assert found["settings"]["tune"] == 4 and found["settings"]["without"] == ["timm"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("PERFMODEL_RETRAIN_CRON", "at night", "minute, hour"),
        ("PERFMODEL_RETRAIN_MODEL", "kernels", "PERFMODEL_RETRAIN_MODEL: 'kernels' is the model"),
        (
            "PERFMODEL_RETRAIN_SETTINGS",
            '{"tunes": 4}',
            "PERFMODEL_RETRAIN_SETTINGS: Unknown field 'tunes'",
        ),
    ],
)
def test_a_service_that_could_never_retrain_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    for changed in ("PERFMODEL_DATABASE", "PERFMODEL_MODELS"):
        # So that what the command sets is taken back in the end.
        monkeypatch.setenv(changed, "0")
    monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(
        cli, ["serve", "--port", "0", "--workers", "2", "--database", f"{tmp_path}/a.db"]
    )
    assert ran.exit_code == 2 and said in ran.output, ran.output
    with pytest.raises(InvalidInputError, match=said):
        rules_of(Settings())


@pytest.mark.parametrize("is_there", [True, False])
def test_what_waits_is_begun_where_the_stated_folders_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    begun: list[list[str]] = []

    class Begun:
        def __init__(self, command: list[str], **_: object) -> None:
            begun.append(command)

        def poll(self) -> int:
            return 0

    monkeypatch.setattr("service.retraining.keeper.subprocess.Popen", Begun)
    url, tables = migrated_sqlite(tmp_path), tmp_path / "tables"
    if is_there:
        tables.mkdir()
    with closing(Connections(url)) as connections:
        store, triggers = RetrainingStore(connections), TriggerStore(connections)
        settings = Settings(database=url, data=tables, retrain_here=True)
        store.start("default")
        RetrainingKeeper(store, triggers, url, settings, Metrics()).poll()
    assert bool(begun) is is_there


def test_what_waits_is_done_on_the_engine_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = migrated_sqlite(tmp_path)
    plain = Settings(models=tmp_path / "models", retraining_processes=3)
    ran = CliRunner().invoke(cli, command_of(url, plain))
    assert ran.exit_code == 0 and "0 retrainings were done" in ran.output, ran.output
    monkeypatch.setenv("PERFMODEL_RETRAINING_ENGINE", "ray")
    monkeypatch.setenv("PERFMODEL_RETRAINING_ADDRESS", "10.0.0.1:6379")
    command = command_of(url, Settings())
    assert command[command.index("--engine") + 1] == "ray"
    assert command[command.index("--address") + 1] == "10.0.0.1:6379"

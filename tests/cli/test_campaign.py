"""``perfmodel campaign``: from a list of workloads to records, with a kill in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from migrated import migrated_sqlite
from waiting import PATIENCE_S

from perfmodel.cli import cli
from perfmodel.cli.database import opened
from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_to_dict
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.state.accelerators import AcceleratorStore

LIST = """
[[workloads]]
model = "zoo/mlp"
batch_size = [1, 2]
"""


@pytest.fixture
def database(tmp_path: Path) -> str:
    return migrated_sqlite(tmp_path)


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.toml"
    path.write_text(LIST)
    return path


def _run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, ["campaign", *map(str, args)])


def _created(*args: str | Path) -> str:
    made = _run("create", *args)
    assert made.exit_code == 0, made.stderr
    return made.stdout.strip()


def test_a_campaign_is_made_looked_at_and_cancelled(database: str, jobs: Path) -> None:
    name = _created(jobs, "--database", database, "--title", "both", "--accelerator", "cpu")
    overview = _run("status", "--database", database).stdout
    assert name in overview and "both" in overview and "0/2" in overview
    again = _run("create", jobs, "--database", database, "--title", "both", "--accelerator", "cpu")
    assert again.stdout.strip() == name
    assert "made before" in again.stderr
    shown = json.loads(_run("status", name, "--database", database, "--json").stdout)
    assert (shown["stage"], shown["total"], shown["waiting"]) == ("waiting", 2, 2)
    assert shown["remaining_s"] is None
    assert shown["policy"]["reference"] == {
        "model": "zoo/resnet50-v1.5", "mode": "inference", "batch_size": 8,
    }  # fmt: skip
    assert (shown["policy"]["order"], shown["policy"]["reference_every"]) == ("listed", 20)
    cancelled = _run("cancel", name, "--database", database)
    assert cancelled.stdout == "Cancelled; 0 of 2 workloads were measured.\n"
    tasks = json.loads(_run("results", name, "--database", database, "--json").stdout)["tasks"]
    assert [task["state"] for task in tasks] == ["cancelled", "cancelled"]
    listed = json.loads(_run("status", "--database", database, "--json").stdout)["campaigns"]
    assert [(one["id"], one["stage"]) for one in listed] == [(name, "cancelled")]


def test_a_budget_makes_the_order_adaptive_unless_another_is_said(
    database: str, jobs: Path
) -> None:
    for options, order in (
        (["--budget", "60"], "adaptive"), (["--budget", "60", "--order", "random"], "random"),
    ):  # fmt: skip
        name = _created(jobs, "--database", database, *options)
        shown = json.loads(_run("status", name, "--database", database, "--json").stdout)
        assert (shown["policy"]["order"], shown["budget_s"]) == (order, 60.0)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("status", "nosuch"), "no campaign 'nosuch' in the database"),
        (("work", "nosuch"), "no campaign 'nosuch' in the database"),
        (("create", "timm/resnet50", "--batch-size", "0"), "batch_size must be a whole number"),
        (("create", "zoo/nosuch"), "Unknown model 'zoo/nosuch'"),
        (("create", "zoo/mlp", "--precision", "fp8"), "zoo/mlp: No profiler quantises"),
    ],
)
def test_what_cannot_be_done_is_said(database: str, args: tuple[str, ...], says: str) -> None:
    refused = _run(*args, "--database", database)
    assert refused.exit_code == 2
    assert says in refused.stderr


def test_workloads_that_are_listed_twice_are_said(database: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"model": "zoo/mlp"}\n' * 3)
    made = _run("create", path, "--database", database)
    assert "2 of the listed workloads repeat others" in made.stderr
    assert "1 workloads wait" in made.stderr


def test_jobs_that_are_asked_about_need_not_be_measured(database: str, tmp_path: Path) -> None:
    path = tmp_path / "asked.jsonl"
    path.write_text('{"model": "zoo/mlp", "precision": "fp8"}')
    _created("zoo/mlp", "--for", str(path), "--database", database, "--budget", "60")


def test_devices_are_called_as_workers_call_them(database: str, jobs: Path) -> None:
    npu = replace(Catalog.default().get("T4"), name="Example-NPU", kind="npu")
    with opened(database) as connections:
        content = json.dumps(spec_to_dict(npu))
        AcceleratorStore(connections).put(npu.name, content, lambda found: None)
    asked = {
        "gpu": "gpu", "any": "any", "h100": "H100-SXM5-80GB", "example npu": "Example-NPU",
        "cpu-nobody-knows-3c": "cpu-nobody-knows-3c",
        "A100-SXM4-80GB-MIG-1g.10gb": "A100-SXM4-80GB-MIG-1g.10gb",
    }  # fmt: skip
    words = [word for said in asked for word in ("--accelerator", said)]
    name = _created(jobs, "--database", database, *words)
    tasks = json.loads(_run("results", name, "--database", database, "--json").stdout)["tasks"]
    assert {task["accelerator"] for task in tasks} == set(asked.values())
    refused = _run("create", jobs, "--database", database, "--accelerator", "H1000")
    assert refused.exit_code == 2
    assert "Unknown accelerator 'H1000'. Did you mean 'H100'" in refused.stderr


def test_a_killed_worker_loses_one_workload_and_the_next_does_the_rest(
    database: str, jobs: Path, tmp_path: Path
) -> None:
    name = _created(jobs, "--database", database, "--reference", "none", "--threads", "1")
    work = ["work", name, "--database", database, "--out", str(tmp_path / "profiles")]
    worker = subprocess.Popen(
        [sys.executable, "-c", "from perfmodel.cli import main; main()", "campaign", *work,
         "--lease", "1"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert worker.stderr is not None
    first = worker.stderr.readline()
    time.sleep(0.05)  # somewhere in the second measurement
    worker.send_signal(signal.SIGKILL)
    worker.wait(PATIENCE_S)
    worker.stderr.close()
    assert "[1/2] zoo/mlp inference batch 1 fp32: finished" in first
    # A signal that comes late finds the second one done as well.
    found = json.loads(_run("results", name, "--database", database, "--json").stdout)["tasks"]
    done = sum(task["state"] == "done" for task in found)
    assert done >= 1
    rest = _run(*work, "--json")
    assert rest.exit_code == 0, rest.stderr
    report = json.loads(rest.stdout)
    assert report["finished"] + report["held"] == 2 - done
    tasks = json.loads(_run("results", name, "--database", database, "--json").stdout)["tasks"]
    assert [task["state"] for task in tasks] == ["done", "done"]
    assert tasks[0]["attempts"] == 1
    store = ProfileStore(tmp_path / "profiles")
    assert sorted(step.batch_size for step in store.steps()) == [1, 2]
    assert "2 done" in _run("status", name, "--database", database).stdout

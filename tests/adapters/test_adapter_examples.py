"""The example programs of adapters run against a service, and their configuration is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from adapter_world import training

from perfmodel.adapters.ask import Service
from perfmodel.adapters.ray import VARIABLE, NodeSpeeds
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(path: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / path, *arguments],
        capture_output=True, text=True, check=False, timeout=60, cwd=EXAMPLES.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def wanted() -> Any:
    return json.loads((EXAMPLES / "gavel" / "jobs.json").read_text())


def test_gavels_table_is_written(service_url: str, tmp_path: Path) -> None:
    told = wanted()
    for one in told["jobs"]:
        parse_job(one["job"])
        one["job"] = training("timm/small")
    (tmp_path / "jobs.json").write_text(json.dumps(told))
    run(
        "gavel/export_table.py", service_url, str(tmp_path / "jobs.json"),
        str(tmp_path / "out.json"),
    )  # fmt: skip
    table = json.loads((tmp_path / "out.json").read_text())
    assert table["v100"]["('ResNet-50 (batch size 64)', 8)"]["null"] > 0


def test_csvs_are_written(service_url: str) -> None:
    elastic = run("elasticflow/export_model.py", service_url, "timm/small", "A100")
    assert elastic.startswith("global_batch_size,1,2,4,8,16,32,64\n64,")
    sia = run("sia/export_placements.py", service_url, "timm/small")
    assert sia.startswith("placement,local_bsz,step_time,sync_time\n1,16,")


@pytest.mark.parametrize("is_up", [True, False])
def test_hints_are_sent_or_not(service_url: str, is_up: bool) -> None:
    url = service_url if is_up else "http://127.0.0.1:9"
    said = run(
        "adaptdl/send_hints.py", url, "http://127.0.0.1:9", "timm/small", "A100", "default/job"
    )
    assert said == ("not taken; the job starts without hints\n" if is_up else "")


def test_rays_configuration_is_read(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    file = EXAMPLES / "ray" / "perfmodel.json"
    told = json.loads(file.read_text())
    parse_job(told["job"])
    for placement in told["node_types"].values():
        parse_placement(placement)
    monkeypatch.setenv(VARIABLE, str(file))
    NodeSpeeds.from_environment()


def test_every_example_compiles() -> None:
    for file in EXAMPLES.rglob("*.py"):
        compile(file.read_text(), str(file), "exec")

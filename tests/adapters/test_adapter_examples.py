"""The example programs of adapters run against a service, and their configuration is read."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from adapter_world import training
from waiting import PATIENCE_S

from perfmodel.adapters.ask import Service
from perfmodel.adapters.gavel_jobs import gavel_jobs
from perfmodel.adapters.ray import VARIABLE, NodeSpeeds
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.requests import parse_job

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(path: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / path, *arguments],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=EXAMPLES.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def wanted() -> Any:
    return json.loads((EXAMPLES / "gavel" / "jobs.json").read_text())


def export_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("table", EXAMPLES / "gavel" / "export_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_jobs_of_gavels_own_table_are_those_that_are_known_by_their_names() -> None:
    told = wanted()
    found = export_table().jobs_of(told, {})
    assert [one.job_type for one in found] == [one["job_type"] for one in told["jobs"]]
    for one, written in zip(found, told["jobs"], strict=True):
        parse_job(one.job)
        assert one.scale_factors == tuple(written["scale_factors"])
        [known] = gavel_jobs([one.job_type], one.scale_factors)
        if "job_type" in known.job:
            assert one.job == written["job"]
        else:
            assert one == known
    # Gavel's ResNet-18 is that of CIFAR-10.
    by_type = {one.job_type: one.job for one in found}
    assert by_type["ResNet-18 (batch size 128)"]["model"] == "zoo/resnet18-cifar"


def test_jobs_that_gavel_has_measured_are_in_its_table() -> None:
    told = wanted()
    named = told["jobs"][1]["job_type"]
    measured = {
        "k80": {("LM (batch size 20)", 2): {"null": 1.0}, ("LM (batch size 20)", 1): {"null": 1.0}},
        "v100": {(named, 4): {"null": 1.0, ("A3C", 4): [1.0, 1.0]}},
    }
    *jobs, added, partner = export_table().jobs_of(told, measured)
    assert [one.job_type for one in jobs] == [one["job_type"] for one in told["jobs"]]
    assert jobs[1].scale_factors == (1, 2, 4)
    assert [added] == gavel_jobs(["LM (batch size 20)"], (1, 2))
    assert [partner] == gavel_jobs(["A3C"], (4,))


def test_gavels_table_is_written_with_what_was_measured(service_url: str, tmp_path: Path) -> None:
    told = wanted()
    for one in told["jobs"]:
        one["job"] = training("timm/small")
    (tmp_path / "jobs.json").write_text(json.dumps(told))
    first, second = str(tmp_path / "first.json"), str(tmp_path / "second.json")
    run("gavel/export_table.py", service_url, str(tmp_path / "jobs.json"), first)
    table = json.loads(Path(first).read_text())
    key = "('ResNet-50 (batch size 64)', 8)"
    assert table["v100"][key]["null"] > 0
    measured = {"v100": {key: {"null": table["v100"][key]["null"] / 3}}}
    (tmp_path / "measured.json").write_text(json.dumps(measured))
    run(
        "gavel/export_table.py", service_url, str(tmp_path / "jobs.json"), second,
        str(tmp_path / "measured.json"),
    )  # fmt: skip
    again = json.loads(Path(second).read_text())
    assert again["v100"][key]["null"] == measured["v100"][key]["null"]
    assert again["k80"][key]["null"] < table["k80"][key]["null"]


def test_csvs_are_written_with_what_was_measured(service_url: str, tmp_path: Path) -> None:
    elastic = run("elasticflow/export_model.py", service_url, "timm/small", "A100")
    assert elastic.startswith("global_batch_size,1,2,4,8,16,32,64\n64,")
    sia = run("sia/export_placements.py", service_url, "timm/small")
    assert sia.startswith("placement,local_bsz,step_time,sync_time\n1,16,")
    measured = tmp_path / "measured.csv"
    measured.write_text("global_batch_size,1,3\n64,12.5,\n96,,25.0\n")
    elastic = run("elasticflow/export_model.py", service_url, "timm/small", "A100", str(measured))
    assert elastic.startswith("global_batch_size,1,2,3,4,8,16,32,64\n64,12.5,")
    assert "\n96," in elastic and ",25.0," in elastic
    measured.write_text("placement,local_bsz,step_time,sync_time\n13,16,0.5,0.0625\n")
    sia = run("sia/export_placements.py", service_url, "timm/small", str(measured))
    assert sia.endswith("\n13,16,0.5,0.0625\n")


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

"""``perfmodel probe`` from a recorded card to records of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from made_measurements import when_asked
from small_models import small_model

from perfmodel.cli import cli
from perfmodel.devices.drivers.device_facts import DeviceFacts
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.graph.canonical import to_json
from perfmodel.graph.job import Job
from perfmodel.profilers.measure import measure_job
from perfmodel.profilers.profiling import ProfileReport, profile_jobs
from perfmodel.profilers.run import MeasureSettings
from perfmodel.profilers.runtime import MemoryPeak, StepTime, TelemetryReading
from perfmodel.profilers.runtime.replay import Recording
from perfmodel.profilers.worker import Success
from perfmodel.registry.file_store import open_store
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.store.artifacts import read_artifact
from perfmodel.store.profiles import ProfileStore
from perfmodel.training.probes import probe_run


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Return what an A100 under a power cap answered."""
    path = tmp_path / "a100.json"
    path.write_bytes(
        Recording(
            facts=DeviceFacts(
                name="NVIDIA A100-SXM4-80GB", backend="cuda", memory_bytes=85e9,
                power_limit_w=300.0, default_power_limit_w=400.0, found_by=("nvml",),
            ),
            steps=[StepTime(wall_s=0.010, device_s=0.008)],
            memory=[MemoryPeak(allocated_bytes=3e9, reserved_bytes=4e9, method="allocator")],
            telemetry=[TelemetryReading(energy_j=10.0, mean_power_w=250.0, source="nvml")],
        ).to_json()
    )  # fmt: skip
    return path


@pytest.fixture
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare a process for each measurement; campaigns have tests of that."""

    def measure(job: Job, device: AcceleratorSpec, settings: MeasureSettings) -> Success:
        measurement, graph = measure_job(job, device, settings)
        return Success(measurement=measurement, graph_json=to_json(graph).decode())

    def run(jobs: list[Job], **settings: Any) -> ProfileReport:
        return profile_jobs(jobs, **{**settings, "begin": when_asked(measure)})

    monkeypatch.setattr(probe_run, "profile_jobs", run)


def _command(folder: Path, recording: Path) -> list[str]:
    jobs = folder / "jobs.json"
    jobs.write_text('[{"model": "zoo/mlp", "mode": "inference", "batch_size": 4}]')
    return [
        "probe", "--device", f"replay:{recording}", "--minutes", "2", "-k", "1",
        "--jobs", str(jobs), "--out", str(folder / "profiles"),
        "--models", str(folder / "models"), "--json",
    ]  # fmt: skip


@pytest.mark.usefixtures("_in_this_process")
def test_a_recorded_card_is_planned_and_measured(tmp_path: Path, recording: Path) -> None:
    command = _command(tmp_path, recording)
    shown = CliRunner().invoke(cli, command)
    assert shown.exit_code == 0, (shown.stdout, shown.stderr)
    said = json.loads(shown.stdout)
    assert said["accelerator"] == "A100-SXM4-80GB"
    assert said["measured"]["finished"] == 1
    assert "limited to 300 W of 400 W" in shown.stderr
    # No model is installed: that is said, and the records are kept.
    assert said["adapted"] is None
    assert "not adapted" in shown.stderr
    (step,) = ProfileStore(tmp_path / "profiles").steps()
    assert (step.step_time_s, step.device_time_s, step.mean_power_w) == (0.010, 0.008, 250.0)
    assert step.power_limit_w == 300.0
    again = json.loads(CliRunner().invoke(cli, command).stdout)
    assert (again["measured"]["finished"], again["measured"]["skipped"]) == (0, 1)


@pytest.mark.usefixtures("_in_this_process")
def test_what_serves_takes_the_records_in(tmp_path: Path, recording: Path) -> None:
    first = small_model(tmp_path / "models")
    second = shutil.copytree(first, first.with_name(f"{first.name}.2"))
    registry = ModelRegistry(open_store(tmp_path / "models"))
    registry.promote("default", second.name)
    registry.promote("default", first.name)
    shown = CliRunner().invoke(cli, _command(tmp_path, recording))
    assert shown.exit_code == 0, (shown.stdout, shown.stderr)
    said = json.loads(shown.stdout)
    assert read_artifact(Path(said["adapted"])).manifest["parent"] == f"default/{first.name}"
    # Once one was promoted, another answers when somebody lets it.
    assert not said["serves"]
    assert "perfmodel models promote" in shown.stderr

"""``perfmodel adapt``: from profiles of a device to a model that takes them into account."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import joint_world
import pytest
import synthetic_workloads as made_up
from click.testing import CliRunner, Result
from small_models import small_model

from perfmodel.cli import cli
from perfmodel.devices.codec import spec_to_dict
from perfmodel.features.steps.step import Step
from perfmodel.graph.workload import Workload
from perfmodel.records import Measurement, Provenance, StepRecord
from perfmodel.registry.file_store import open_store
from perfmodel.registry.model_registry import ModelRegistry
from perfmodel.registry.states import State
from perfmodel.store.profiles import ProfileStore

NEW = "Gpu-New"
WIDTHS = (256, 320, 384, 512, 640)
SLOWER = 1.8
ASKED = ["predict", "timm/test_resnet", "--batch-size", "64", "--on", "Gpu-New", "--json"]


def _run(*args: str, code: int = 0) -> Result:
    shown = CliRunner().invoke(cli, list(args))
    assert shown.exit_code == code, (shown.stdout, shown.stderr, shown.exception)
    return shown


def _record(workload: Workload, step_time_s: float, *, spread: float = 0.0) -> Measurement:
    provenance = Provenance(
        accelerator=spec_to_dict(workload.accelerator), software=dict(workload.software),
        measured_at="2026-01-01T00:00:00+00:00", source="made up for this test",
        threads=workload.threads,
    )  # fmt: skip
    step = StepRecord(
        workload_hash=workload.content_hash, graph_hash=workload.graph.content_hash,
        model="made-up/mlp", family="made-up-mlp",
        job={"model": "made-up/mlp", "hash": workload.content_hash},
        accelerator=workload.accelerator.name, mode=workload.mode,
        batch_size=workload.batch_size, precision=workload.precision,
        memory_format=workload.memory_format, compiler=workload.compiler,
        step_time_s=step_time_s, samples_s=(step_time_s,) * 3, low_s=step_time_s,
        high_s=step_time_s, spread=spread, noisy=spread > 0, warmup_steps=1,
        peak_memory_bytes=None, provenance=provenance,
    )  # fmt: skip
    return Measurement(step=step)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return records of a device that takes 1.8 times what the law says, one of them too noisy."""
    store = ProfileStore(tmp_path_factory.mktemp("profiles"))
    for width in WIDTHS:
        for training in (False, True):
            workload = joint_world.new_workload(NEW, width=width, training=training)
            time_s = float(SLOWER * joint_world.law_s(Step.of(workload)))
            store.append(_record(workload, time_s), workload.graph)
    noisy = joint_world.new_workload(NEW, width=96)
    store.append(_record(noisy, 1.0, spread=0.9), noisy.graph)
    return store.folder


@pytest.fixture
def models(trained: Path, tmp_path: Path) -> Path:
    """Return a folder of models of its own for each test."""
    return Path(shutil.copytree(trained, tmp_path / "models"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    small_model(folder)
    return folder


def _adapt(profiles: Path, models: Path, *more: str, code: int = 0) -> Result:
    return _run("adapt", "--profiles", str(profiles), "--models", str(models), *more, code=code)


def test_the_new_version_answers_for_the_device(profiles: Path, models: Path) -> None:
    said = json.loads(_adapt(profiles, models, "--json").stdout)
    assert said["records"] == {NEW: 2 * len(WIDTHS)}
    assert said["dropped"] == {"too noisy": 1}
    version = f"default/{Path(said['folder']).name}"
    listed = json.loads(_run("models", "--models", str(models), "--json").stdout)["models"]
    assert [(facts["model"], facts["serving"]) for facts in listed] == [
        (version, True),
        (said["parent"], False),
    ]
    assert listed[0]["parent"] == said["parent"]
    assert listed[0]["adapted"][NEW]["records"] == 2 * len(WIDTHS)
    # The catalogue does not hold this device; the model brings it along.
    answer = json.loads(_run(*ASKED, "--models", str(models)).stdout)
    assert answer["model_version"] == version
    assert any(f"10 records of {NEW} into account" in text for text in answer["warnings"])


def test_a_version_that_was_refused_is_not_what_is_adapted(profiles: Path, models: Path) -> None:
    (served,) = (models / "default").iterdir()
    registry = ModelRegistry(open_store(models))
    newer = registry.publish(served, "default")
    registry.judge("default", newer, State.REFUSED)
    said = json.loads(_adapt(profiles, models, "--json").stdout)
    assert (said["parent"], said["serves"]) == (f"default/{served.name}", True)


def test_without_a_version_that_serves_there_is_nothing_to_adapt(
    profiles: Path, models: Path
) -> None:
    (only,) = (models / "default").iterdir()
    waiting = models.with_name("waiting")
    ModelRegistry(open_store(waiting)).publish(only, "default")
    shown = _adapt(profiles, waiting, code=2)
    assert "No version of 'default' serves" in shown.stderr


def test_it_tells_what_it_took_and_what_it_left_out(profiles: Path, models: Path) -> None:
    said = _adapt(profiles, models, "--device", NEW).stdout
    assert f"Took into account: 10 records of {NEW}." in said
    assert "Left out: 1 (too noisy)." in said
    assert f"The model is in {models / 'default'}" in said


def test_a_device_without_records_is_answered_with_those_that_have(
    profiles: Path, models: Path, tmp_path: Path
) -> None:
    shown = _adapt(profiles, models, "--device", "Gpu-Neu", code=2)
    assert f"Did you mean '{NEW}'" in shown.stderr
    shown = _adapt(tmp_path / "none", models, code=4)
    assert "No usable measurement" in shown.stderr and "probe-plan" in shown.stderr


def test_a_device_with_members_of_its_own_is_refused(models: Path, tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "own")
    sample = made_up.samples(families=1)[0]
    store.append(_record(sample.workload, sample.step_time_s), sample.workload.graph)
    shown = _adapt(store.folder, models, code=2)
    assert "members of its own" in shown.stderr and "perfmodel train" in shown.stderr


def test_what_has_members_of_its_own_is_left_out_beside_other_records(
    profiles: Path, models: Path, tmp_path: Path
) -> None:
    both = ProfileStore(Path(shutil.copytree(profiles, tmp_path / "both")))
    sample = made_up.samples(families=1)[0]
    both.append(_record(sample.workload, sample.step_time_s), sample.workload.graph)
    said = json.loads(_adapt(both.folder, models, "--json").stdout)
    assert said["records"] == {NEW: 2 * len(WIDTHS)}
    name = sample.workload.accelerator.name
    assert said["dropped"] == {
        "too noisy": 1,
        f"{name} has members of its own, which a fit alone changes": 1,
    }


def test_models_that_cannot_be_adapted_are_refused(profiles: Path, tmp_path: Path) -> None:
    small_model(tmp_path, joint=False)
    shown = _adapt(profiles, tmp_path, code=2)
    assert "has no joint predictor" in shown.stderr
    shown = _adapt(profiles, tmp_path, "--name", "defualt", code=2)
    assert "Did you mean 'default'" in shown.stderr

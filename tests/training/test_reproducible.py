"""The same data, seed and time give the same bytes; manifests say what they rest on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import joint_world
import numpy as np
import pytest
import synthetic_workloads as made_up

import perfmodel
from perfmodel.engines.local_engine import LocalEngine
from perfmodel.errors import InvalidInputError
from perfmodel.registry.differences import differences
from perfmodel.store.artifacts import read_artifact
from perfmodel.training.provenance import code_facts, group_scores, snapshot, time_now
from perfmodel.training.train import train

SAMPLES = made_up.samples(families=4)
CORPUS = joint_world.samples()[::3]
#: Two folds of two rounds: as little as learns anything.
JOINT = {"epochs": 1, "rounds": 5, "folds": 2}
NOON = "2026-01-01T12:00:00Z"


def _train(folder: Path, *, seed: int = 0, workers: int = 1) -> dict[str, bytes]:
    version = train(
        SAMPLES, folder, members=("gbdt", "gnn"), folds=2, seed=seed, corpus=CORPUS,
        joint_settings=JOINT, created_at=NOON, engine=LocalEngine(workers=workers),
    )  # fmt: skip
    found = sorted(path for path in version.rglob("*") if path.is_file())
    return {path.relative_to(version).as_posix(): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return _train(tmp_path_factory.mktemp("first") / "models")


def test_training_twice_gives_the_same_bytes(first: dict[str, bytes], tmp_path: Path) -> None:
    # With other processes at that, since which of them fits what must not matter.
    second = _train(tmp_path / "models", workers=2)
    assert second.keys() == first.keys() and len(first) > 12
    assert [path for path in first if first[path] != second[path]] == []


def test_manifests_say_what_was_learned_from(first: dict[str, bytes], tmp_path: Path) -> None:
    for path, content in first.items():
        (tmp_path / "default" / "1" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "default" / "1" / path).write_bytes(content)
    artifact = read_artifact(tmp_path / "default" / "1")
    assert artifact.damaged == {}
    manifest = artifact.manifest
    assert manifest["created_at"] == NOON and manifest["seed"] == 0
    assert manifest["snapshot"] == snapshot(SAMPLES, CORPUS)
    assert manifest["code"] == code_facts()
    assert manifest["libraries"].keys() >= {"python", "numpy", "torch", "xgboost-cpu"}
    groups = manifest["scores"]["groups"]
    assert sum(group["count"] for group in groups.values()) == len(SAMPLES)
    assert {name.split()[-1] for name in groups} <= {"training", "inference"}


def test_a_snapshot_changes_with_its_data_alone() -> None:
    both = snapshot(SAMPLES, CORPUS)
    sources = {one.source for one in CORPUS}
    assert both.keys() == {"workloads", *sources}
    assert snapshot(SAMPLES[::-1], CORPUS[::-1]) == both
    slower = dataclasses.replace(CORPUS[0], step_time_s=2 * CORPUS[0].step_time_s)
    changed = snapshot(SAMPLES, [slower, *CORPUS[1:]])
    assert [name for name in both if both[name] != changed[name]] == [slower.source]
    alone = snapshot(SAMPLES, (), CORPUS[:2])
    assert alone[f"{CORPUS[0].source} operators"]["samples"] == 2
    found = differences({"snapshot": both}, {"snapshot": changed})
    assert [one.fact for one in found.facts] == [f"snapshot.{slower.source}.digest"]


def test_groups_are_scored_apart() -> None:
    times = np.array([one.step_time_s for one in SAMPLES])
    training = np.array([one.workload.mode.value == "training" for one in SAMPLES])
    # Training is answered twice as slow, everything else right.
    found = group_scores(SAMPLES, np.where(training, 2 * times, times))
    assert {name.split()[-1]: group["mape"] for name, group in found.items()} == {
        mode: pytest.approx(1.0 if mode == "training" else 0.0)
        for mode in {one.workload.mode.value for one in SAMPLES}
    }


def test_the_stated_time_can_be_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2026-01-01T12:00:00Z: 20454 days and a half since 1970.
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(20_454 * 86_400 + 43_200))
    assert time_now() == NOON
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "noon")
    with pytest.raises(InvalidInputError, match="SOURCE_DATE_EPOCH"):
        time_now()


def test_the_code_is_named_by_what_is_in_it() -> None:
    found = code_facts()
    assert found["version"] == perfmodel.__version__
    assert len(found["source_digest"]) == 64

"""A model takes a few records of a device into account: only its answers move, and narrow."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import joint_world
import numpy as np
import pytest
import synthetic_workloads as made_up
from small_models import small_model

from perfmodel.errors import DamagedArtifactError, InvalidInputError, TrainingError
from perfmodel.estimator.facade import Estimator
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.graph.workload import Workload
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_store import FACTS, facts_bytes, load_joint
from perfmodel.predictors.prediction import Prediction
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.predictors.serving.serving_parts import ADAPTED, JOINT, LEARNED
from perfmodel.store.artifacts import latest, read_artifact
from perfmodel.training.adapt import MOST_RECORDS, adapt_model, adaptable, reasons
from perfmodel.training.learned_steps import read_learned
from perfmodel.training.model_card import CARD
from perfmodel.training.probes.probe_plan import prior_of
from perfmodel.training.provenance import corpus_digest

#: Steps of a device that nobody has measured take this times as long as its specification says.
SLOWER = 1.8
NEW = "Gpu-New"
#: A dozen records of it, over all networks.
PROBES = joint_world.samples((NEW,), slower=SLOWER)[::6]
OTHERS = ("Gpu-S", "Gpu-L", "Cpu")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one model: own members for one CPU, a joint predictor for the rest."""
    folder = tmp_path_factory.mktemp("models")
    small_model(folder)
    return folder


@pytest.fixture(scope="module")
def version(models: Path) -> Path:
    return latest(models, "default").folder


@pytest.fixture(scope="module")
def adapted(version: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adapt_model(version, PROBES, tmp_path_factory.mktemp("adapted"))


def _answers(version: Path, device: str) -> list[Prediction]:
    return ServingModel.load(version).predict(_workloads(device))


def _workloads(device: str) -> list[Workload]:
    return [joint_world.new_workload(device, width=width) for width in (320, 448, 704)]


def _log_width(found: Prediction) -> float:
    return float(np.log(found.high_s / found.low_s))


def test_answers_for_the_device_move_to_its_records_and_narrow(
    version: Path, adapted: Path
) -> None:
    before, after = _answers(version, NEW), _answers(adapted, NEW)
    true_s = [SLOWER * joint_world.law_s(Step.of(workload)) for workload in _workloads(NEW)]
    for old, new, time_s in zip(before, after, true_s, strict=True):
        # Most of the way is believed: twelve records against a spread between devices.
        moved = np.log(new.time_s / old.time_s) / np.log(time_s / old.time_s)
        assert 0.5 < moved < 1.5
        assert _log_width(new) < _log_width(old)
        assert new.model_version == f"default/{adapted.name}"


def test_the_answer_says_how_many_records_it_rests_on(version: Path, adapted: Path) -> None:
    (before, *_), (after, *_) = _answers(version, NEW), _answers(adapted, NEW)
    assert f"The model has learned from no step on {NEW}" in before.warnings[0]
    said = [text for text in after.warnings if NEW in text]
    assert len(said) == 1
    assert f"takes {len(PROBES)} records of {NEW} into account" in said[0]


def test_answers_for_all_other_devices_stay_as_they_are(version: Path, adapted: Path) -> None:
    for device in OTHERS:
        old, new = _answers(version, device), _answers(adapted, device)
        assert [replace(one, model_version="") for one in old] == [
            replace(one, model_version="") for one in new
        ]
    workloads = [sample.workload for sample in made_up.samples(families=2, seed=1)]
    old, new = (ServingModel.load(v).predict(workloads) for v in (version, adapted))
    assert [one.time_s for one in old] == [one.time_s for one in new]


def test_only_what_adapting_changes_is_written_anew(version: Path, adapted: Path) -> None:
    before, after = read_artifact(version), read_artifact(adapted)
    assert not after.damaged
    assert before.manifest["files"].keys() == after.manifest["files"].keys()
    changed = {p for p, e in after.manifest["files"].items() if before.manifest["files"][p] != e}
    assert changed == {f"{JOINT}/{FACTS}", CARD, LEARNED}
    assert len(read_learned(adapted) or ()) == len(read_learned(version) or ()) + len(PROBES)
    facts = after.manifest[ADAPTED][NEW]
    assert (facts["records"], facts["digest"]) == (len(PROBES), corpus_digest(PROBES))
    assert after.manifest["parent"] == f"default/{version.name}"
    assert after.manifest["trained_at"] == before.manifest["created_at"]
    kept = {"scores", "data", "devices", "joint", "weights", "licence", "libraries"}
    assert {key: before.manifest[key] for key in kept} == {k: after.manifest[k] for k in kept}
    assert f"| {NEW} | {len(PROBES)} |" in (adapted / CARD).read_text()
    assert NEW not in (version / CARD).read_text()


def test_the_newest_version_answers_and_brings_its_device(version: Path, tmp_path: Path) -> None:
    parent = tmp_path / "default" / version.name
    shutil.copytree(version, parent)
    folder = adapt_model(parent, PROBES, tmp_path)
    answering = Estimator.from_folder(tmp_path)
    assert answering.model_version == f"default/{folder.name}"
    assert answering.accelerators.get(NEW) == joint_world.device(NEW)
    assert answering.models[0][ADAPTED].keys() == {NEW}


def test_the_same_records_twice_count_once(adapted: Path, tmp_path: Path) -> None:
    again = adapt_model(adapted, PROBES, tmp_path)
    assert (again / JOINT / FACTS).read_bytes() == (adapted / JOINT / FACTS).read_bytes()
    first = read_artifact(adapted).manifest
    assert read_artifact(again).manifest["trained_at"] == first["trained_at"]
    assert read_artifact(again).manifest[ADAPTED] == first[ADAPTED]


def test_devices_are_adapted_one_after_the_other(adapted: Path, tmp_path: Path) -> None:
    more = joint_world.samples(("Gpu-S",), slower=1.1)[::9]
    both = adapt_model(adapted, more, tmp_path)
    assert read_artifact(both).manifest[ADAPTED].keys() == {NEW, "Gpu-S"}
    assert load_joint(both / JOINT).known_.beliefs.records == {NEW: len(PROBES), "Gpu-S": len(more)}
    assert [a.time_s for a in _answers(both, NEW)] == [a.time_s for a in _answers(adapted, NEW)]
    (found, *_) = _answers(both, "Gpu-S")
    assert f"{len(more)} records of Gpu-S into account, beside those of" in found.warnings[0]


def test_records_leave_less_to_be_learned_of_a_device(version: Path, adapted: Path) -> None:
    before, after = (load_joint(v / JOINT) for v in (version, adapted))
    steps = [sample.step for sample in PROBES]
    shares = before.device_features(steps)
    spread = [
        np.einsum("ij,jk,ik->i", shares, joint.device_covariance(NEW), shares).mean()
        for joint in (before, after)
    ]
    assert spread[1] < 0.2 * spread[0]
    # All coefficients of a regime share a part: beside the diagonal as well as on it.
    effects = len(before.device_prior_)
    shared = before.device_covariance(NEW)[:effects, :effects] - np.diag(before.device_prior_)
    assert np.ptp(shared) == pytest.approx(0.0, abs=1e-12)
    assert shared[0, 1] > 0
    np.testing.assert_array_equal(prior_of(before, NEW), before.device_covariance(NEW))
    # Each device has 72 steps of training, and three would halve what is left: 3 / (3 + 72).
    known = before.device_covariance("Gpu-S")
    np.testing.assert_allclose(known, 3 / (3 + 72) * before.device_covariance(NEW))


def test_forgetting_a_device_undoes_its_records(version: Path) -> None:
    joint: JointPredictor = load_joint(version / JOINT)
    assert facts_bytes(joint.adapt(PROBES).forget({NEW})) == facts_bytes(joint)
    twice = joint.adapt(PROBES[:5]).adapt(PROBES[5:])
    assert twice.known_.beliefs.records == {NEW: len(PROBES)}
    # Taken together or apart, the same is known.
    once = joint.adapt(PROBES)
    np.testing.assert_allclose(
        twice.known_.beliefs.effects[NEW].mean, once.known_.beliefs.effects[NEW].mean
    )


def test_a_model_without_a_joint_predictor_is_refused(tmp_path: Path) -> None:
    version = small_model(tmp_path, joint=False)
    with pytest.raises(InvalidInputError, match="has no joint predictor"):
        adapt_model(version, PROBES, tmp_path)


def _on(device_kind: str) -> list[StepSample]:
    spec = replace(joint_world.device(NEW), name="Strange", kind=device_kind)
    return [replace(p, step=replace(p.step, accelerator=spec)) for p in PROBES]


def test_records_that_would_change_no_answer_are_left_out(version: Path) -> None:
    taken, left_out = adaptable(version, _on("tpu"))
    assert not taken and "does not answer for a tpu" in reasons(left_out)
    own = [replace(p, step=replace(p.step, accelerator=made_up.DEVICE)) for p in PROBES]
    taken, left_out = adaptable(version, own)
    assert not taken and "members of its own" in reasons(left_out)


def test_none_are_refused_and_too_many_left_out(version: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="no records"):
        adapt_model(version, [], tmp_path)
    many = PROBES * (MOST_RECORDS // len(PROBES) + 1)
    taken, left_out = adaptable(version, many)
    assert len(taken) == MOST_RECORDS and "are enough without a fit" in reasons(left_out)


def test_a_damaged_model_is_not_passed_on(version: Path, tmp_path: Path) -> None:
    folder = tmp_path / "default" / "1"
    shutil.copytree(version, folder)
    (folder / JOINT / FACTS).write_text("{}")
    with pytest.raises(DamagedArtifactError):
        adapt_model(folder, PROBES, tmp_path)

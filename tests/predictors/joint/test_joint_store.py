"""The joint predictor on disk: the same answers, or a refusal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import joint_world as world
import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from perfmodel.errors import DamagedArtifactError
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.whole_step import WHOLE_COLUMNS
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_store import ARRAYS, FACTS, load_joint, save_joint

STEPS = [sample.step for sample in world.samples()[::9]] + [
    Step.of(world.new_workload(name)) for name in (*world.KNOWN, "Gpu-New")
]
PROBES = world.samples(("Gpu-New",), slower=1.6)[:3]


@pytest.fixture(scope="module")
def folder(joint: JointPredictor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "joint"
    save_joint(joint, path)
    return path


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(folder, tmp_path / "joint"))


def _same(one: JointPredictor, other: JointPredictor) -> None:
    for ours, theirs in zip(one.predict(STEPS), other.predict(STEPS), strict=True):
        # Residuals are kept in single precision.
        assert (ours.time_s, ours.low_s, ours.high_s) == pytest.approx(
            (theirs.time_s, theirs.low_s, theirs.high_s), rel=1e-5
        )
        assert (ours.basis, ours.nearest, ours.warnings) == (
            theirs.basis, theirs.nearest, theirs.warnings,
        )  # fmt: skip
        assert ours.out_of_distribution == theirs.out_of_distribution


def test_loaded_answers_are_equal(joint: JointPredictor, folder: Path) -> None:
    loaded = load_joint(folder)
    _same(joint, loaded)
    assert loaded.known_.trained == joint.known_.trained and loaded.settings == joint.settings
    assert loaded.noise_ == pytest.approx(joint.noise_)


def test_trees_of_errors_are_kept_and_refused_when_damaged(
    joint: JointPredictor, copied: Path
) -> None:
    rows = np.zeros((1, len(WHOLE_COLUMNS)), dtype=np.float32)
    kept = load_joint(copied).errors_.factors(rows)
    assert kept == pytest.approx(joint.errors_.factors(rows), rel=1e-6)
    (copied / "errors.json").write_text("{")
    with pytest.raises(DamagedArtifactError):
        load_joint(copied)


def test_trees_that_are_told_nothing_are_kept_and_refused_when_damaged(
    joint: JointPredictor, copied: Path
) -> None:
    elsewhere = [one.step for one in world.samples(("Gpu-New",))[:6]]
    kept = load_joint(copied)
    times = [[a.time_s for a in one.predict(elsewhere)] for one in (joint, kept)]
    assert times[1] == pytest.approx(times[0], rel=1e-5)
    (copied / "untold.boost.json.xz").write_bytes(b"{")
    with pytest.raises(DamagedArtifactError):
        load_joint(copied)


def test_an_adapted_predictor_keeps_its_records(joint: JointPredictor, tmp_path: Path) -> None:
    adapted = joint.adapt(PROBES)
    save_joint(adapted, tmp_path / "joint")
    loaded = load_joint(tmp_path / "joint")
    _same(adapted, loaded)
    more = world.samples(("Gpu-New",), slower=1.6)[10:12]
    _same(adapted.adapt(more), loaded.adapt(more))


def test_a_loaded_predictor_can_be_adapted(joint: JointPredictor, folder: Path) -> None:
    _same(joint.adapt(PROBES), load_joint(folder).adapt(PROBES))


def test_effects_of_another_size_are_refused(joint: JointPredictor, tmp_path: Path) -> None:
    save_joint(joint.adapt(PROBES), tmp_path / "joint")
    facts = json.loads((tmp_path / "joint" / FACTS).read_text())
    facts["effects"]["Gpu-New"] = {"mean": [0.1, 0.2], "covariance": [[1, 0], [0, 1]]}
    (tmp_path / "joint" / FACTS).write_text(json.dumps(facts))
    with pytest.raises(DamagedArtifactError, match="another size"):
        load_joint(tmp_path / "joint")


def test_saved_twice_is_equal_to_the_byte(folder: Path, tmp_path: Path) -> None:
    save_joint(load_joint(folder), tmp_path / "again")
    for path in sorted(folder.iterdir()):
        if path.name.endswith((".safetensors", FACTS)):
            assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


def test_every_missing_file_is_refused(folder: Path, tmp_path: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    assert {FACTS, ARRAYS} < set(names)
    for name in names:
        copy = Path(shutil.copytree(folder, tmp_path / name))
        (copy / name).unlink()
        with pytest.raises(DamagedArtifactError):
            load_joint(copy)


@pytest.mark.parametrize("name", [FACTS, ARRAYS, "member-0.net.safetensors", "member-1.net.json"])
def test_a_file_cut_short_is_refused(copied: Path, name: str) -> None:
    content = (copied / name).read_bytes()
    (copied / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedArtifactError):
        load_joint(copied)


@pytest.mark.parametrize(
    "key",
    [
        "settings",
        "mix",
        "spreads",
        "quantiles",
        "devices",
        "device_prior",
        "jobs",
        "labels",
        "frameworks",
        "makers",
        "records",
        "measured",
        "graph_jobs",
        "training_shares",
    ],
)
def test_facts_that_lack_a_part_are_refused(copied: Path, key: str) -> None:
    facts = json.loads((copied / FACTS).read_text())
    del facts[key]
    (copied / FACTS).write_text(json.dumps(facts))
    with pytest.raises(DamagedArtifactError, match=key):
        load_joint(copied)


def test_jobs_that_do_not_fit_the_cells_are_refused(copied: Path) -> None:
    facts = json.loads((copied / FACTS).read_text())
    facts["jobs"] = facts["jobs"][1:]
    (copied / FACTS).write_text(json.dumps(facts))
    with pytest.raises(DamagedArtifactError, match="do not fit"):
        load_joint(copied)


@pytest.mark.parametrize("content", ["[]", "null", '{"settings": {"moon": 1}}', '{"settings": 3}'])
def test_facts_of_another_kind_are_refused(copied: Path, content: str) -> None:
    (copied / FACTS).write_text(content)
    with pytest.raises(DamagedArtifactError):
        load_joint(copied)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedArtifactError, match="joint"):
        load_joint(tmp_path)


def test_numbers_that_are_not_finite_are_refused(copied: Path) -> None:
    path = copied / ARRAYS
    arrays = load_arrays(path.read_bytes())
    arrays["residuals"] = arrays["residuals"].copy()
    arrays["residuals"][0] = np.nan
    path.write_bytes(save_arrays(arrays))
    with pytest.raises(DamagedArtifactError, match="not finite"):
        load_joint(copied)


def test_a_file_that_does_not_rest_on_every_law_is_refused(copied: Path) -> None:
    content = (copied / FACTS).read_text()
    for law in ("power_limited", "jobs_by_kind"):
        facts = json.loads(content)
        assert facts["settings"].pop(law) is True
        (copied / FACTS).write_text(json.dumps(facts))
        with pytest.raises(DamagedArtifactError, match=law):
            load_joint(copied)

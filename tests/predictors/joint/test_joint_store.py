"""The joint predictor on disk: the same answers, or a refusal."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path

import joint_world as world
import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import DamagedArtifactError
from perfmodel.features.steps.slow_paths import SLOW_PATHS
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_table import StepLaws, step_table
from perfmodel.features.steps.whole_step import WHOLE_COLUMNS
from perfmodel.predictors.joint.joint import JointPredictor
from perfmodel.predictors.joint.joint_store import ARRAYS, FACTS, load_joint, save_joint
from perfmodel.types import Framework

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


def test_trees_of_errors_are_kept_refused_when_damaged_and_not_asked_for_by_older_files(
    joint: JointPredictor, copied: Path
) -> None:
    rows = np.zeros((1, len(WHOLE_COLUMNS)), dtype=np.float32)
    kept, made = load_joint(copied).errors_, joint.errors_
    assert kept and made
    assert kept.factors(rows) == pytest.approx(made.factors(rows), rel=1e-6)
    (copied / "errors.json").write_text("{")
    with pytest.raises(DamagedArtifactError):
        load_joint(copied)
    facts = json.loads((copied / "joint.json").read_text())
    del facts["errors"]
    (copied / "joint.json").write_text(json.dumps(facts))
    assert load_joint(copied).errors_ is None


def test_trees_that_are_told_nothing_are_kept_and_not_asked_for_by_older_files(
    joint: JointPredictor, copied: Path
) -> None:
    elsewhere = [one.step for one in world.samples(("Gpu-New",))[:6]]
    kept = load_joint(copied)
    times = [[a.time_s for a in one.predict(elsewhere)] for one in (joint, kept)]
    assert times[1] == pytest.approx(times[0], rel=1e-5)
    (copied / "untold.boost.json.xz").write_bytes(b"{")
    with pytest.raises(DamagedArtifactError):
        load_joint(copied)
    facts = json.loads((copied / FACTS).read_text())
    assert facts.pop("untold") is True
    (copied / FACTS).write_text(json.dumps(facts))
    earlier = load_joint(copied)
    assert earlier.untold_ is None
    assert [a.time_s for a in earlier.predict(elsewhere)] != pytest.approx(times[0], rel=1e-5)


def test_an_adapted_predictor_keeps_its_records(joint: JointPredictor, tmp_path: Path) -> None:
    adapted = joint.adapt(PROBES)
    save_joint(adapted, tmp_path / "joint")
    loaded = load_joint(tmp_path / "joint")
    _same(adapted, loaded)
    more = world.samples(("Gpu-New",), slower=1.6)[10:12]
    _same(adapted.adapt(more), loaded.adapt(more))


def test_a_loaded_predictor_can_be_adapted(joint: JointPredictor, folder: Path) -> None:
    _same(joint.adapt(PROBES), load_joint(folder).adapt(PROBES))


def test_effects_from_before_regimes_had_their_own_act_in_all(
    joint: JointPredictor, tmp_path: Path
) -> None:
    save_joint(joint.adapt(PROBES), tmp_path / "joint")
    facts = json.loads((tmp_path / "joint" / FACTS).read_text())
    size = len(facts["device_prior"])
    stored = facts["effects"]["Gpu-New"]
    own = {
        "mean": stored["mean"][:size],
        "covariance": [row[:size] for row in stored["covariance"][:size]],
    }
    facts["effects"]["Gpu-New"] = own
    (tmp_path / "joint" / FACTS).write_text(json.dumps(facts))
    belief = load_joint(tmp_path / "joint").known_.beliefs
    shares = np.full(size, 1 / size)
    shifts = [
        belief.shift(("Gpu-New", "gpu", mode, compiler), shares)
        for mode in ("inference", "training")
        for compiler in ("eager", "fused")
    ]
    # The last digit hangs on where in the vector a set stands.
    assert all(one == pytest.approx(shifts[0], rel=1e-12) for one in shifts)
    assert shifts[0][0] == pytest.approx(float(shares @ own["mean"]))
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
    "key", ["settings", "mix", "spreads", "quantiles", "devices", "device_prior", "jobs", "labels"]
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


def test_files_from_before_frameworks_know_pytorch_alone(copied: Path) -> None:
    facts = json.loads((copied / FACTS).read_text())
    assert facts.pop("frameworks") == ["pytorch"]
    (copied / FACTS).write_text(json.dumps(facts))
    assert load_joint(copied).known_.frameworks == (Framework.PYTORCH,)


def test_a_file_from_before_power_limits_answers_at_the_boost_clock(copied: Path) -> None:
    facts = json.loads((copied / FACTS).read_text())
    assert facts["settings"].pop("power_limited") is True
    (copied / FACTS).write_text(json.dumps(facts))
    earlier = load_joint(copied)
    limited = [replace(step, accelerator=Catalog.default().get("T4")) for step in STEPS]
    assert not earlier.settings.laws.power_limited and earlier.settings.laws.attention_by_release
    assert earlier.table_of(limited).peaks[:, 0].min() == pytest.approx(
        step_table(limited).peaks[:, 0].min()
    )
    # It stays as it is when it is written again.
    save_joint(earlier, copied.parent / "again")
    assert not load_joint(copied.parent / "again").settings.laws.power_limited


def test_a_file_from_before_kinds_told_jobs_apart_takes_them_for_one(copied: Path) -> None:
    facts = json.loads((copied / FACTS).read_text())
    assert facts["settings"].pop("jobs_by_kind") is True
    (copied / FACTS).write_text(json.dumps(facts))
    earlier, newer = load_joint(copied), JointPredictor()
    gpu, cpu = (world.step(world.networks()[0][-1], name) for name in ("Gpu-S", "Cpu"))
    assert earlier.job_of(gpu) == earlier.job_of(cpu)
    assert newer.job_of(gpu) != newer.job_of(cpu)
    # It stays as it is when it is written again.
    save_joint(earlier, copied.parent / "again")
    assert load_joint(copied.parent / "again").settings.jobs_by_kind is False


def test_a_file_from_before_releases_told_attention_apart_fuses_it_always(copied: Path) -> None:
    facts = json.loads((copied / FACTS).read_text())
    assert facts["settings"].pop("attention_by_release") is True
    (copied / FACTS).write_text(json.dumps(facts))
    earlier, newer = load_joint(copied), JointPredictor()
    old = [replace(step, software={"torch": "1.13"}) for step in STEPS]
    written = SLOW_PATHS.index("parts")
    assert earlier.settings.laws == StepLaws(power_limited=True, recursion=True, reached_rates=True)
    assert not earlier.table_of(old).slow_rates[:, written].any()
    assert newer.table_of(old).slow_rates[:, written].any()


def test_records_from_before_trees_were_heard_by_half_are_answered_as_then(
    joint: JointPredictor, copied: Path, tmp_path: Path
) -> None:
    def without(predictor: JointPredictor, folder: Path) -> JointPredictor:
        save_joint(predictor, folder)
        facts = json.loads((folder / FACTS).read_text())
        assert facts.pop("heard") == predictor.known_.heard
        (folder / FACTS).write_text(json.dumps(facts))
        return load_joint(folder)

    # Without any record of a device the two are the same.
    assert without(joint, copied).known_.heard == joint.known_.heard == 0.5
    earlier = copy.copy(joint)
    earlier.known_ = replace(joint.known_, heard=1.0, halfway=joint.known_.memory)
    adapted = earlier.adapt(PROBES)
    _same(adapted, without(adapted, tmp_path / "earlier"))
    of_new = [step for step in STEPS if step.accelerator.name == "Gpu-New"]
    now, then = joint.adapt(PROBES).predict(of_new), adapted.predict(of_new)
    assert [one.time_s for one in now] != pytest.approx([one.time_s for one in then], rel=1e-4)

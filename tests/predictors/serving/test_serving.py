"""A trained artefact answers, says what it rests on, and survives the loss of members."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.errors import DamagedArtifactError
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.training.train import train
from perfmodel.types import Basis, Compiler

SAMPLES = made_up.samples(families=8)
WORKLOADS = [sample.workload for sample in SAMPLES]
MEMBERS = ("operators", "gbdt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(SAMPLES, tmp_path_factory.mktemp("models"), members=MEMBERS, folds=3)


@pytest.fixture(scope="module")
def model(folder: Path) -> ServingModel:
    return ServingModel.load(folder)


def _new_workload(width: int = 640, batch: int = 8) -> made_up.Workload:
    graph = made_up.mlp(batch * 16, [width] * 4, "relu", training=False)
    return made_up.workload(graph, batch, training=False)


def test_a_measured_workload_is_answered_by_its_measurement(model: ServingModel) -> None:
    for sample, prediction in zip(SAMPLES, model.predict(WORKLOADS), strict=True):
        assert prediction.basis is Basis.MEASURED
        assert prediction.time_s == sample.step_time_s
        assert not prediction.out_of_distribution


def test_a_new_workload_is_interpolated_near_the_truth(model: ServingModel) -> None:
    workload = _new_workload()
    (prediction,) = model.predict([workload])
    truth = 1.1 * made_up.hidden_node_times(workload).sum()
    assert prediction.basis is Basis.INTERPOLATED
    assert prediction.time_s == pytest.approx(truth, rel=0.25)
    assert 0 < prediction.low_s < prediction.time_s < prediction.high_s
    assert prediction.coverage == 0.9
    assert len(prediction.nearest) == 3 and "inference" in prediction.nearest[0]
    assert any("widened" in warning for warning in prediction.warnings)


def test_a_strange_workload_is_extrapolated_with_a_wider_interval(model: ServingModel) -> None:
    near, far = model.predict([_new_workload(), _new_workload(width=16, batch=512)])
    other = dataclasses.replace(_new_workload(), compiler=Compiler.ONNXRUNTIME)
    (novel,) = model.predict([other])
    for prediction in (far, novel):
        assert prediction.basis is Basis.EXTRAPOLATED and prediction.out_of_distribution
        assert prediction.high_s / prediction.low_s > near.high_s / near.low_s


def test_an_unseen_device_is_answered_analytically(model: ServingModel) -> None:
    gpu = dataclasses.replace(made_up.DEVICE, name="made-up-gpu", kind="gpu")
    (prediction,) = model.predict([dataclasses.replace(WORKLOADS[0], accelerator=gpu)])
    assert prediction.basis is Basis.ANALYTICAL and prediction.out_of_distribution
    assert prediction.high_s / prediction.low_s == pytest.approx(2.5**2)
    assert "assumed" in " ".join(prediction.warnings)


def test_a_known_device_stands_for_its_namesake(model: ServingModel) -> None:
    # Measured again on another day the same machine may show other rates; the answer stays.
    again = dataclasses.replace(made_up.DEVICE, peak_flops={"fp32": 2.2e11})
    workload = _new_workload()
    answers = model.predict([workload, dataclasses.replace(workload, accelerator=again)])
    assert answers[0].time_s == answers[1].time_s


def test_many_at_once_equal_one_by_one(folder: Path) -> None:
    workloads = [_new_workload(width=w) for w in (128, 320, 640)]
    together = ServingModel.load(folder).predict(workloads)
    alone = [ServingModel.load(folder).predict([workload])[0] for workload in workloads]
    assert [p.time_s for p in together] == pytest.approx([p.time_s for p in alone], rel=1e-6)
    assert ServingModel.load(folder).predict([]) == []


def test_an_explanation_ends_at_the_answer(model: ServingModel) -> None:
    unmeasured = dataclasses.replace(made_up.DEVICE, name="never-measured")
    new = _new_workload()
    for workload in (new, WORKLOADS[0], dataclasses.replace(new, accelerator=unmeasured)):
        found = model.explain(workload, lambda name: None)
        (answer,) = model.predict([workload])
        assert found.stages[0].name == "roofline"
        assert found.stages[0].time_s == pytest.approx(found.nodes.roofline_s)
        assert found.stages[-1].time_s == pytest.approx(answer.time_s)
        # Work and launches are all that a node takes, up to one factor of all nodes.
        by_name = {stage.name: stage.time_s for stage in found.stages}
        assert by_name["launches"] == pytest.approx(found.nodes.time_s.sum())
        assert by_name["operator efficiencies"] == pytest.approx(found.nodes.work_s.sum())


def test_near_samples_were_predicted_without_their_family(model: ServingModel) -> None:
    found = model.explain(WORKLOADS[0], lambda name: None).nearest
    assert len(found) == 5
    assert [p.distance for p in found] == sorted(p.distance or 0.0 for p in found)
    nearest = found[0]
    # Training rows are kept with three digits after the point.
    assert nearest.distance == pytest.approx(0.0, abs=1e-3)
    assert nearest.measured_s == pytest.approx(SAMPLES[0].step_time_s)
    assert nearest.predicted_s is not None
    # Held out: not what the fitted members say of it, which is the measurement itself.
    assert nearest.predicted_s != nearest.measured_s
    assert {(p.accelerator, p.source) for p in found} == {(made_up.DEVICE.name, "profile")}


def test_a_damaged_member_is_left_out_and_named(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "default" / "1"
    shutil.copytree(folder, copy)
    booster = copy / "members" / "operators" / "operators.json"
    content = bytearray(booster.read_bytes())
    content[len(content) // 2] ^= 1
    booster.write_bytes(bytes(content))
    model = ServingModel.load(copy)
    assert model.members == ("gbdt",)
    assert "operators.json" in model.absent["operators"]
    (prediction,) = model.predict([_new_workload()])
    (full,) = ServingModel.load(folder).predict([_new_workload()])
    assert prediction.high_s / prediction.low_s >= full.high_s / full.low_s * (1 - 1e-9)
    if full.time_s != prediction.time_s:
        assert any("operators" in warning for warning in prediction.warnings)


def test_members_can_be_left_out(folder: Path) -> None:
    model = ServingModel.load(folder, without=("operators",))
    assert model.members == ("gbdt",) and "request" in model.absent["operators"]


def test_no_member_left_is_an_error(folder: Path) -> None:
    with pytest.raises(DamagedArtifactError, match="No member"):
        ServingModel.load(folder, without=MEMBERS)


@pytest.mark.parametrize("shared", ["serving.json", "measured.json", "efficiency/efficiency.json"])
def test_a_damaged_shared_file_is_refused_by_name(
    folder: Path, tmp_path: Path, shared: str
) -> None:
    copy = tmp_path / "default" / "1"
    shutil.copytree(folder, copy)
    (copy / shared).unlink()
    with pytest.raises(DamagedArtifactError, match=shared):
        ServingModel.load(copy)


def test_answers_without_torch(folder: Path) -> None:
    # A fresh process in which torch cannot be imported at all.
    program = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'safetensors'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        f"sys.path.insert(0, {str(Path(made_up.__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "import synthetic_workloads as made_up\n"
        "from perfmodel.predictors.serving.serving import ServingModel\n"
        f"model = ServingModel.load(Path({str(folder)!r}))\n"
        "graph = made_up.mlp(64, [640] * 4, 'relu', training=False)\n"
        "print(model.predict([made_up.workload(graph, 4, training=False)])[0].time_s)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    graph = made_up.mlp(64, [640] * 4, "relu", training=False)
    (here,) = ServingModel.load(folder).predict([made_up.workload(graph, 4, training=False)])
    assert float(run.stdout) == here.time_s


def test_every_answer_is_finite(model: ServingModel) -> None:
    workloads = [_new_workload(width=w, batch=b) for w in (1, 33, 4096) for b in (1, 64)]
    for prediction in model.predict(workloads):
        assert np.isfinite([prediction.low_s, prediction.time_s, prediction.high_s]).all()
        assert 0 < prediction.low_s <= prediction.time_s <= prediction.high_s

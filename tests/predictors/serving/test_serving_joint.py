"""An artefact with a joint predictor answers for devices that it has no profiles of."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import joint_world as world
import pytest
import synthetic_workloads as made_up

from perfmodel.features.steps.step import Step
from perfmodel.graph.workload import Workload
from perfmodel.predictors.serving.serving import ServingModel
from perfmodel.predictors.serving.serving_parts import JOINT
from perfmodel.training.samples.member_samples import answered_by_members, learned_by_members
from perfmodel.training.train import train
from perfmodel.types import Basis, Mode

OWN = made_up.samples(families=6)
#: Profiles of a GPU on which everything takes as long as on the CPU, other than in the corpus.
OF_GPU = [replace(s, workload=replace(s.workload, accelerator=world.device("Gpu-S"))) for s in OWN]
CORPUS = world.samples()
SETTINGS = {"folds": 2, "epochs": 6, "rounds": 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(
        [*OWN, *OF_GPU], tmp_path_factory.mktemp("models"), members=("efficiency",), folds=2,
        corpus=CORPUS, joint_settings=SETTINGS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(folder: Path) -> ServingModel:
    return ServingModel.load(folder)


def _own_workload() -> Workload:
    return made_up.workload(made_up.mlp(64, [640] * 4, "relu", training=False), 4, training=False)


def _law_s(workload: Workload) -> float:
    return world.law_s(Step.of(workload))


def test_a_device_without_profiles_is_answered_jointly(model: ServingModel) -> None:
    assert not model.absent
    for name in world.KNOWN:
        workload = world.new_workload(name)
        (answer,) = model.predict([workload])
        assert answer.basis is Basis.INTERPOLATED
        assert answer.time_s == pytest.approx(_law_s(workload), rel=0.25)
        assert answer.model_version == model.version


def test_a_joint_answer_is_explained_by_its_stages(model: ServingModel) -> None:
    known = Workload(
        graph=made_up.mlp(64, [288] * 3, "relu", training=False),
        accelerator=world.device("Gpu-L"), mode=Mode.INFERENCE, batch_size=4,
        software={"torch": "2.4.0"},
    )  # fmt: skip
    for workload in (world.new_workload("Gpu-New"), known):
        found = model.explain(workload, world.device)
        (answer,) = model.predict([workload])
        assert found.stages[-1].time_s == pytest.approx(answer.time_s, rel=1e-5)
        assert found.nodes.roofline_s == pytest.approx(found.stages[0].time_s)
        assert found.nearest


def test_a_device_that_nobody_measured_is_answered_jointly_and_named(model: ServingModel) -> None:
    workload = world.new_workload("Gpu-New")
    (answer,) = model.predict([workload])
    assert answer.basis is Basis.EXTRAPOLATED
    assert any("Gpu-New" in warning for warning in answer.warnings)
    assert answer.low_s < _law_s(workload) < answer.high_s


def test_a_device_with_profiles_keeps_its_members(model: ServingModel, folder: Path) -> None:
    without = ServingModel.load(folder, without=(JOINT,))
    assert model.predict([_own_workload()]) == without.predict([_own_workload()])


def test_members_answer_for_no_gpu_beside_a_joint_predictor(
    model: ServingModel, tmp_path: Path
) -> None:
    cpu, gpu = OWN[0].workload.accelerator, world.device("Gpu-S")
    assert set(model.devices) == {cpu.name, gpu.name}
    assert model.manifest["devices"] == [cpu.name]
    assert model.answers_jointly(gpu) and not model.answers_jointly(cpu)
    # Profiled as well, and answered by the law of the corpus.
    known = OF_GPU[0].workload
    (answer,) = model.predict([known])
    assert answer.time_s == pytest.approx(_law_s(known), rel=0.25)
    members = ("efficiency",)
    cpus_alone = ServingModel.load(train(OWN, tmp_path, members=members, folds=2))
    assert model.predict([_own_workload()])[0].time_s == pytest.approx(
        cpus_alone.predict([_own_workload()])[0].time_s
    )
    alone = ServingModel.load(train([*OWN, *OF_GPU], tmp_path, members=members, folds=2))
    assert set(alone.manifest["devices"]) == {cpu.name, gpu.name}


def test_members_learn_from_gpus_where_there_is_too_little_else() -> None:
    assert learned_by_members([*OWN, *OF_GPU], jointly=True) == list(OWN)
    assert learned_by_members([*OWN, *OF_GPU], jointly=False) == [*OWN, *OF_GPU]
    for few in (OWN[:3], [replace(s, family="same") for s in OWN]):
        assert learned_by_members([*few, *OF_GPU], jointly=True) == [*few, *OF_GPU]
    assert answered_by_members(OF_GPU, jointly=True) == []


def test_kinds_never_learned_about_fall_back(model: ServingModel) -> None:
    tpu = replace(world.device("Gpu-S"), name="made-up-tpu", kind="tpu")
    (answer,) = model.predict([replace(world.new_workload("Gpu-S"), accelerator=tpu)])
    assert answer.basis is Basis.ANALYTICAL


def test_answers_keep_the_order_of_the_questions(model: ServingModel, folder: Path) -> None:
    asked = [
        world.new_workload("Gpu-L"), _own_workload(), world.new_workload("Cpu"),
        OWN[0].workload, world.new_workload("Gpu-New"),
    ]  # fmt: skip
    alone = [model.predict([workload])[0] for workload in asked]
    together = ServingModel.load(folder).predict(asked)
    for one, other in zip(alone, together, strict=True):
        assert one.basis is other.basis
        assert one.time_s == pytest.approx(other.time_s, rel=1e-4)


def test_software_is_part_of_what_is_remembered(folder: Path) -> None:
    workload = world.new_workload("Gpu-L")
    old = replace(workload, software={"torch": "1.4.0"})
    fresh = ServingModel.load(folder).predict([old])[0]
    model = ServingModel.load(folder)
    model.predict([workload])
    assert model.predict([old])[0].time_s == pytest.approx(fresh.time_s, rel=1e-6)
    assert len(model._remembered) == 2
    assert model.predict([workload])[0] is model.predict([workload])[0]


def test_a_damaged_joint_folder_leaves_the_old_fallback(folder: Path, tmp_path: Path) -> None:
    for name in ("joint.json", "arrays.safetensors", "member-0.net.safetensors"):
        copy = Path(shutil.copytree(folder, tmp_path / name / "1"))
        content = bytearray((copy / JOINT / name).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / JOINT / name).write_bytes(bytes(content))
        model = ServingModel.load(copy)
        assert name in model.absent[JOINT]
        (answer,) = model.predict([world.new_workload("Gpu-L")])
        assert answer.basis is Basis.ANALYTICAL and answer.out_of_distribution
        assert answer.time_s > 0
        assert model.predict([_own_workload()])[0].basis is Basis.INTERPOLATED


def test_a_lost_joint_folder_leaves_the_old_fallback(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "1"))
    shutil.rmtree(copy / JOINT)
    model = ServingModel.load(copy)
    assert JOINT in model.absent
    assert model.predict([world.new_workload("Gpu-L")])[0].basis is Basis.ANALYTICAL


def test_the_joint_predictor_can_be_left_out(folder: Path) -> None:
    model = ServingModel.load(folder, without=(JOINT,))
    assert "request" in model.absent[JOINT]
    assert model.predict([world.new_workload("Gpu-L")])[0].basis is Basis.ANALYTICAL


def test_without_safetensors_devices_without_profiles_fall_back(folder: Path) -> None:
    program = (
        "import sys\n"
        "class NoArrays:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'safetensors':\n"
        "            raise ModuleNotFoundError('No module named ' + name, name=name)\n"
        "sys.meta_path.insert(0, NoArrays())\n"
        "import json\n"
        "from pathlib import Path\n"
        "from perfmodel.predictors.serving.serving import ServingModel\n"
        f"print(json.dumps(dict(ServingModel.load(Path({str(folder)!r})).absent)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "perfmodel[serve]" in json.loads(run.stdout)[JOINT]


def test_an_artefact_without_a_corpus_has_no_joint_predictor(tmp_path: Path) -> None:
    folder = train(OWN, tmp_path, members=("efficiency",), folds=2)
    model = ServingModel.load(folder)
    assert not (folder / JOINT).exists() and JOINT not in model.manifest
    assert not model.absent
    assert model.predict([world.new_workload("Gpu-L")])[0].basis is Basis.ANALYTICAL


def test_another_framework_is_not_answered_from_profiles(model: ServingModel) -> None:
    # Profiles are of PyTorch: a measured time of it is no measurement of another framework.
    measured = OWN[0].workload
    (plain,) = model.predict([measured])
    (other,) = model.predict([replace(measured, software={"framework": "tensorflow"})])
    assert plain.basis is Basis.MEASURED
    assert other.basis is not Basis.MEASURED
    assert any("No step under tensorflow" in warning for warning in other.warnings)

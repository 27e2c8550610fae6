"""An answer of the shipped model is the same bytes whatever is asked beside it, without torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shipped_steps import shipped_workloads, version_folder

from perfmodel.features.steps.step import Step
from perfmodel.predictors.serving.serving import ServingModel

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def model() -> ServingModel:
    return ServingModel.load(version_folder())


def test_an_answer_does_not_depend_on_its_company(model: ServingModel) -> None:
    assert model.joint is not None
    steps = [Step.of(workload) for workload in shipped_workloads()]
    together = model.joint.predict(steps)
    assert model.joint.predict(steps[::-1])[::-1] == together
    for i, step in enumerate(steps):
        assert model.joint.predict([step]) == [together[i]]
    # More than are answered at once.
    others = [replace(step, batch_size=7 * step.batch_size) for step in steps]
    many = model.joint.predict([*others * 12, *steps])
    assert many[-len(steps) :] == together


def test_no_member_listens_to_what_is_asked_beside(model: ServingModel) -> None:
    own = next(iter(model.devices.values()))
    asked = [replace(one, accelerator=own) for one in shipped_workloads()[:: len(model.devices)]]
    for name in model.members:
        member = model._members[name]
        together = member.predict(asked)
        alone = np.concatenate([member.predict([workload]) for workload in asked])
        assert np.array_equal(together, alone), name


def test_every_predictor_answers_without_torch_and_scikit_learn() -> None:
    program = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
sys.modules["torch"] = sys.modules["sklearn"] = None
from shipped_steps import shipped_workloads, version_folder
from perfmodel.predictors.serving.serving import ServingModel
model = ServingModel.load(version_folder())
assert not model.absent, model.absent
found = model.predict(shipped_workloads())
print([one.time_s for one in found] == [one.time_s for one in model.predict(shipped_workloads())])
print(sorted({{one.basis.value for one in found}}))
lazy = {{"torch_geometric", "scipy.optimize", "scipy.spatial", "scipy.stats", "pandas"}}
print(sorted(lazy & set(sys.modules)))
"""
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    repeated, bases, loaded = told.stdout.splitlines()
    assert repeated == "True" and "analytical" not in bases and loaded == "[]"

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from perfmodel.graph.job import Job
from perfmodel.training.captures.capture_key import capture_key
from perfmodel.training.captures.kept_profiles import memory_profiles, step_profiles
from perfmodel.types import Mode


def test_a_profile_is_captured_once_and_read_back_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    job = Job(model="zoo/resnet18-cifar", mode=Mode.TRAINING, batch_size=4, optimizer="momentum")
    first = step_profiles([job, job], cache=tmp_path)[capture_key(job)]
    with monkeypatch.context() as patched:
        patched.setattr("perfmodel.zoo.resolve.capture_job", None)
        again = step_profiles([job], cache=tmp_path)[capture_key(job)]
    # ResNet-18 for 32x32 images has 11.17 million parameters, all of them trained in fp32.
    assert first.gradient_bytes == first.parameter_bytes == pytest.approx(4 * 11.17e6, rel=0.01)
    assert np.array_equal(again.gradient_ready, first.gradient_ready)


def test_what_cannot_be_captured_is_left_out(tmp_path: Path) -> None:
    job = Job(model="zoo/no-such-model", mode=Mode.TRAINING, batch_size=4)
    assert step_profiles([job], cache=tmp_path) == {}


def test_a_memory_profile_comes_back_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path))
    pytest.importorskip("torch")
    job = Job(model="zoo/resnet18-cifar", mode=Mode.TRAINING, batch_size=64)
    first, again = (memory_profiles([job])[capture_key(job)] for _ in range(2))
    assert any(tmp_path.rglob("memory/*"))
    assert isinstance(again.parameter_bytes, float)
    for one in fields(first):
        np.testing.assert_array_equal(getattr(again, one.name), getattr(first, one.name))

"""What cells of a job share: recovered from simulated residuals, recalled by hand arithmetic."""

from __future__ import annotations

import copy
from dataclasses import replace

import joint_world as world
import numpy as np
import pytest

from perfmodel.predictors.joint.job_memory import (
    MATCHES,
    JobMemory,
    architecture_of,
    cell_of,
    job_key,
    software_code,
    software_of_code,
)
from perfmodel.types import Compiler, Framework, MemoryFormat, Mode, Precision

_DEVICE, _MODE = MATCHES.index("device"), MATCHES.index("mode")
#: Variances that the simulation is made with: of the job, of job and device, of job and mode.
_TRUTH = {"job": 0.5, "device": 0.3, "mode": 0.2}
_NOISE = 0.1


def _simulated(jobs: int = 400) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Four devices by two modes for every job; nothing else agrees by chance or in design."""
    rng = np.random.default_rng(0)
    names, cells, residuals = [], [], []
    for job in range(jobs):
        own = np.sqrt(_TRUTH["job"]) * rng.standard_normal()
        devices = np.sqrt(_TRUTH["device"]) * rng.standard_normal(4)
        modes = np.sqrt(_TRUTH["mode"]) * rng.standard_normal(2)
        for device in range(4):
            for mode in range(2):
                noise = np.sqrt(_NOISE) * rng.standard_normal()
                names.append(f"job{job}")
                cells.append([device, mode, *rng.integers(0, 2, size=len(MATCHES) - 3)])
                residuals.append(own + devices[device] + modes[mode] + noise)
    return names, np.array(cells, dtype=np.int64), np.array(residuals)


@pytest.fixture(scope="module")
def memory() -> JobMemory:
    names, cells, residuals = _simulated()
    return JobMemory().fit(names, cells, residuals)


def _by_hand(**variances: float) -> JobMemory:
    """A memory of known variances with one job ``a``: 0.4 on device 1, in mode 0."""
    memory = JobMemory()
    memory.variances_ = np.zeros(1 + len(MATCHES))
    memory.variances_[0] = variances.get("job", 0.0)
    for name in MATCHES:
        memory.variances_[1 + MATCHES.index(name)] = variances.get(name, 0.0)
    memory.noise_ = variances["noise"]
    memory.cells_ = {"a": (_cell(1)[None, :], np.array([0.4]))}
    return memory


def _cell(device: int, mode: int = 0) -> np.ndarray:
    return np.array([device, mode, *range(10, 10 + len(MATCHES) - 3)], dtype=np.int64)


def test_variances_are_recovered(memory: JobMemory) -> None:
    assert memory.variances_[0] == pytest.approx(_TRUTH["job"], abs=0.12)
    assert memory.variances_[1 + _DEVICE] == pytest.approx(_TRUTH["device"], abs=0.1)
    assert memory.variances_[1 + _MODE] == pytest.approx(_TRUTH["mode"], abs=0.1)
    assert memory.noise_ == pytest.approx(_NOISE, abs=0.1)
    total = sum(_TRUTH.values()) + _NOISE
    assert memory.prior_variance_ == pytest.approx(total, rel=0.1)


def test_an_unknown_job_has_the_prior(memory: JobMemory) -> None:
    found = memory.recall("never-seen", _cell(0))
    assert (found.mean, found.cells) == (0.0, 0)
    assert found.variance == found.prior_variance == memory.prior_variance_


def test_recall_by_hand() -> None:
    memory = _by_hand(job=0.5, device=0.3, noise=0.2)
    # On another device the cells share 0.5 of 1.0: half of the residual, 1 - 0.5^2 / 1.0 left.
    other = memory.recall("a", _cell(2))
    assert (other.mean, other.variance) == pytest.approx((0.5 * 0.4, 0.75))
    # On the same device they share 0.8: 0.8 of it, 1 - 0.8^2 left.
    same = memory.recall("a", _cell(1, mode=7))
    assert (same.mean, same.variance) == pytest.approx((0.8 * 0.4, 0.36))
    assert same.cells == other.cells == 1 and same.prior_variance == pytest.approx(1.0)


def test_the_same_cell_shares_what_nothing_else_does() -> None:
    memory = _by_hand(job=0.5, all=0.4, noise=0.1)
    assert memory.recall("a", _cell(1)).mean == pytest.approx(0.9 * 0.4)
    assert memory.recall("a", _cell(1, mode=7)).mean == pytest.approx(0.5 * 0.4)


def test_cells_never_add_variance(memory: JobMemory) -> None:
    for job in list(memory.cells_)[:50]:
        for device in (0, 3, 9):
            found = memory.recall(job, _cell(device))
            assert 0 < found.variance <= found.prior_variance * (1 + 1e-9)


def test_recalled_answers_are_as_good_as_they_say(memory: JobMemory) -> None:
    errors, variances, plain = [], [], []
    for job, (_, residuals) in list(memory.cells_.items())[:200]:
        (found,) = memory.left_out(job, [3], device=False)
        errors.append(residuals[3] - found.mean)
        variances.append(found.variance)
        plain.append(residuals[3])
    assert np.mean(np.square(errors)) == pytest.approx(np.mean(variances), rel=0.3)
    assert np.mean(np.square(errors)) < 0.5 * np.mean(np.square(plain))


def test_left_out_cells_say_nothing(memory: JobMemory) -> None:
    job = next(iter(memory.cells_))
    cells, residuals = memory.cells_[job]
    for device in (False, True):
        (before,) = memory.left_out(job, [2], device=device)
        changed = residuals.copy()
        changed[2] += 100.0
        if device:
            changed[cells[:, 0] == cells[2, 0]] += 100.0
        other = copy.copy(memory)
        other.cells_ = {job: (cells, changed)}
        assert other.left_out(job, [2], device=device) == [before]
        # All but one of eight cells, or the six of the other three devices.
        assert before.cells == (6 if device else 7)


def test_a_cell_alone_leaves_the_prior() -> None:
    memory = _by_hand(job=0.5, noise=0.5)
    for device in (False, True):
        (found,) = memory.left_out("a", [0], device=device)
        assert (found.mean, found.variance, found.cells) == (0.0, 1.0, 0)


def test_jobs_of_one_cell_share_nothing() -> None:
    memory = JobMemory().fit(["a", "b"], np.stack([_cell(0), _cell(1)]), np.array([0.3, -0.3]))
    assert memory.variances_.tolist() == [0.0] * (1 + len(MATCHES))
    assert memory.noise_ == pytest.approx(0.09)
    assert memory.recall("a", _cell(2)).mean == 0.0


def test_a_cell_names_what_matches() -> None:
    base = world.step(world.networks()[0][-1], "Gpu-S")
    codes = cell_of(base)
    assert len(codes) == len(MATCHES) - 1
    changes = {
        "device": {"accelerator": world.device("Gpu-L")},
        "mode": {"mode": Mode.TRAINING},
        "compiler": {"compiler": Compiler.INDUCTOR},
        "layout": {"memory_format": MemoryFormat.CHANNELS_LAST},
        "software": {"software": {"torch": "1.13.0"}},
        "precision": {"precision": Precision.AMP_FP16},
        "batch": {"batch_size": 64},
    }
    for name, change in changes.items():
        other = cell_of(replace(base, **change))
        assert [MATCHES[i] for i in range(len(codes)) if codes[i] != other[i]] == [name]


def test_both_half_precisions_are_one() -> None:
    base = world.step(world.networks()[0][-1], "Gpu-S")
    halves = (Precision.FP16, Precision.BF16, Precision.AMP_FP16, Precision.AMP_BF16)
    assert len({cell_of(replace(base, precision=half)) for half in halves}) == 1


def _few_far_off() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Every cell of a job has one residual; one job in twenty is far off and inflates the noise."""
    rng = np.random.default_rng(2)
    names, cells, residuals = [], [], []
    for job in range(300):
        own = rng.standard_normal()
        for device in range(4):
            names.append(f"job{job}")
            cells.append(_cell(device))
            residuals.append(own + (8.0 * rng.standard_normal() if job % 20 == 0 else 0.0))
    return names, np.array(cells), np.array(residuals)


def test_cells_of_other_devices_are_believed_as_far_as_they_are_right() -> None:
    memory = JobMemory().fit(*_few_far_off())
    before = memory.noise_
    memory.listen_across_devices()
    assert memory.noise_ == pytest.approx(0.05 * before)
    (recalled,) = memory.left_out("job1", [0], device=True)
    assert recalled.mean == pytest.approx(memory.cells_["job1"][1][0], rel=0.05)


def test_noise_that_is_real_stays() -> None:
    rng = np.random.default_rng(3)
    names = [f"job{job}" for job in range(300) for _ in range(4)]
    cells = np.array([_cell(device) for _ in range(300) for device in range(4)])
    memory = JobMemory().fit(names, cells, rng.standard_normal(1_200))
    before = memory.noise_
    memory.listen_across_devices()
    # Cells that say nothing of each other: whatever share of it, nothing is recalled.
    assert memory.noise_ <= before
    assert abs(memory.left_out("job1", [0], device=True)[0].mean) < 0.3


def test_what_is_kept_of_a_job_follows_what_is_learned_later() -> None:
    names, cells, residuals = _few_far_off()
    memory, other = (JobMemory().fit(names, cells, residuals) for _ in range(2))
    before = memory.recall("job1", _cell(9))
    for one in (memory, other):
        one.listen_across_devices()
    assert memory.recall("job1", _cell(9)) == other.recall("job1", _cell(9)) != before
    memory.fit(names, cells, 2 * residuals)
    again = JobMemory().fit(names, cells, 2 * residuals)
    assert memory.recall("job1", _cell(9)) == again.recall("job1", _cell(9))


def test_codes_of_software_say_what_they_stand_for() -> None:
    codes = {software_code({"framework": framework.value}) for framework in Framework}
    assert len(codes) == len(Framework)
    for code in (*codes, *(software_code({"torch": r}) for r in ("1.12.1", "2.4.0", "2.9.1"))):
        assert software_code(software_of_code(code)) == code
    # The order of the words is kept in files: new ones go to the end.
    assert [framework.value for framework in Framework] == [
        "pytorch", "tensorflow", "mxnet", "paddle", "oneflow", "jax", "caffe2", "torch7",
    ]  # fmt: skip


def test_between_two_memories_residuals_are_those_of_answers_between() -> None:
    names, cells, residuals = _simulated(40)
    one, other = (JobMemory().fit(names, cells, r) for r in (residuals, residuals - 0.3))
    mixed = one.between(other, 0.25)
    known, own = mixed.cells_["job3"]
    assert known is one.cells_["job3"][0]
    assert own == pytest.approx(one.cells_["job3"][1] - 0.75 * 0.3)
    assert mixed.prior_variance_ == pytest.approx(
        0.25 * one.prior_variance_ + 0.75 * other.prior_variance_
    )


def test_a_job_is_an_architecture_on_a_kind_of_device() -> None:
    sketch = world.networks()[0][-1]
    small, large, cpu = (world.step(sketch, name) for name in ("Gpu-S", "Gpu-L", "Cpu"))
    assert job_key(small) == job_key(large) != job_key(cpu)
    assert architecture_of(job_key(small)) == architecture_of(job_key(cpu))


def test_cells_of_one_device_hear_the_same_others_once(
    memory: JobMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = next(iter(memory.cells_))
    alone = [memory.left_out(job, [i], device=True)[0] for i in range(8)]
    solved: list[int] = []
    inv = np.linalg.inv
    monkeypatch.setattr(np.linalg, "inv", lambda a: (solved.append(len(a)), inv(a))[1])
    assert memory.left_out(job, range(8), device=True) == alone
    assert solved == [6] * 4

"""Quantiles cover what they promise, and say when they were borrowed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from perfmodel.predictors.joint.job_memory import MATCHES, JobMemory
from perfmodel.predictors.joint.joint_intervals import (
    FEWEST,
    GroupQuantiles,
    Rung,
    conformal_quantile,
    rung_scores,
)

BIG = ("Gpu-S", "gpu", "inference", "eager", "pytorch")
SMALL = ("Gpu-L", "gpu", "inference", "eager", "pytorch")
ALONE = ("Cpu", "cpu", "training", "fused", "pytorch")


def _quantiles(coverage: float = 0.9) -> tuple[GroupQuantiles, np.ndarray]:
    """Many scores of one device around 1, a few of another around 3, fewer still on a CPU."""
    rng = np.random.default_rng(0)
    sizes = (2 * FEWEST, FEWEST // 2, 5)
    groups = [g for g, n in zip((BIG, SMALL, ALONE), sizes, strict=True) for _ in range(n)]
    scores = np.concatenate(
        [np.abs(scale * rng.standard_normal(n)) for scale, n in zip((1, 3, 1), sizes, strict=True)]
    )
    return GroupQuantiles.fit({Rung.NEW_JOB: scores}, groups, coverage), scores


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("count", [9, 40])
def test_new_scores_are_covered_as_promised(coverage: float, count: int) -> None:
    rng = np.random.default_rng(0)
    covered = [
        np.mean(
            rng.exponential(size=50) <= conformal_quantile(rng.exponential(size=count), coverage)
        )
        for _ in range(2000)
    ]
    # Split conformal: at least the coverage, at most 1 / (count + 1) more; +- 0.01 by chance.
    assert coverage - 0.01 <= np.mean(covered) <= coverage + 1 / (count + 1) + 0.01


def test_quantiles_by_hand() -> None:
    # ceil((4 + 1) * 0.5) = 3: the third of four; ceil(5 * 0.9) = 5 is beyond, so the largest.
    scores = np.array([4.0, 1.0, 3.0, 2.0])
    assert conformal_quantile(scores, 0.5) == 3.0
    assert conformal_quantile(scores, 0.9) == 4.0
    assert conformal_quantile(np.zeros(0), 0.9) == 2.0


def test_a_large_group_has_a_quantile_of_its_own() -> None:
    found, scores = _quantiles()
    value, pooled = found.at(Rung.NEW_JOB, BIG)
    assert value == conformal_quantile(scores[: 2 * FEWEST], 0.9) and not pooled


def test_a_small_group_takes_that_of_all_devices_of_its_kind() -> None:
    found, scores = _quantiles()
    value, pooled = found.at(Rung.NEW_JOB, SMALL)
    assert value == conformal_quantile(scores[:-5], 0.9) and not pooled
    assert found.at(Rung.NEW_JOB, ("Gpu-New", *SMALL[1:])) == (value, pooled)


def test_a_lone_group_takes_that_of_everything_and_says_so() -> None:
    found, scores = _quantiles()
    assert found.at(Rung.NEW_JOB, ALONE) == (conformal_quantile(scores, 0.9), True)
    # Another compiler or mode on the same kind of device: that of the mode, or of the kind.
    for words in (("inference", "fused"), ("training", "eager")):
        other = ("Gpu-S", "gpu", *words, "pytorch")
        assert found.at(Rung.NEW_JOB, other) == (conformal_quantile(scores[:-5], 0.9), True)


def test_a_rung_without_scores_is_pooled() -> None:
    found, _ = _quantiles()
    value, pooled = found.at(Rung.KNOWN_JOB, BIG)
    assert value > 0 and pooled


def test_scores_that_a_rung_lacks_are_left_out() -> None:
    scores = np.where(np.arange(2 * FEWEST) % 2, 1.0, np.nan)
    found = GroupQuantiles.fit({Rung.KNOWN_JOB: scores}, [BIG] * len(scores), 0.9)
    assert found.at(Rung.KNOWN_JOB, BIG) == (1.0, False)


def test_json_keeps_every_quantile() -> None:
    found, _ = _quantiles()
    back = GroupQuantiles.from_list(json.loads(json.dumps(found.to_list())))
    assert dict(back.values) == dict(found.values)


def test_frameworks_have_quantiles_of_their_own() -> None:
    rng = np.random.default_rng(0)
    groups = [(*BIG[:4], word) for word in ("pytorch", "tensorflow") for _ in range(FEWEST)]
    scores = np.abs(np.repeat([1.0, 5.0], FEWEST) * rng.standard_normal(2 * FEWEST))
    found = GroupQuantiles.fit({Rung.NEW_JOB: scores}, groups, 0.9)
    near, far = (found.at(Rung.NEW_JOB, ("Gpu-New", *group[1:]))[0] for group in groups[::FEWEST])
    assert near == conformal_quantile(scores[:FEWEST], 0.9) < far / 2
    # Of a framework with too few records nothing but the mode and the compiler is known.
    pooled = found.at(Rung.NEW_JOB, (*BIG[:4], "another"))
    assert pooled == (conformal_quantile(scores, 0.9), True)


def test_rungs_of_evidence() -> None:
    # Measured cells of the job, and whether the device was among those measured.
    assert Rung.of(0, True) is Rung.of(0, False) is Rung.NEW_JOB
    assert Rung.of(2, True) is Rung.KNOWN_JOB
    assert Rung.of(2, False) is Rung.OTHER_DEVICES


def test_a_job_on_one_device_alone_counts_elsewhere_with_nothing_recalled() -> None:
    # Job a ran on devices 1 and 2, job b on device 1 alone; each cell shares all of 0.75 with its
    # like, of a variance of 1.
    width = len(MATCHES) - 1
    cells = np.zeros((3, width), dtype=np.int64)
    cells[:, 0] = [1, 2, 1]
    residuals = np.array([0.8, 0.4, 0.6])
    memory = JobMemory()
    memory.variances_, memory.noise_ = np.zeros(1 + len(MATCHES)), 0.25
    memory.variances_[0] = 0.75
    memory.cells_ = {"a": (cells[:2], residuals[:2]), "b": (cells[2:], residuals[2:])}
    scores = rung_scores(residuals, np.ones(3), ["a", "a", "b"], memory, memory)
    # Recalled 0.75 of the other residual, 1 - 0.75^2 left; nothing recalled, all of 1 left.
    left = np.sqrt(1 - 0.75**2)
    expected = [(0.8 - 0.75 * 0.4) / left, abs(0.4 - 0.75 * 0.8) / left, 0.6]
    for rung in (Rung.OTHER_DEVICES, Rung.NEW_DEVICE):
        assert scores[rung] == pytest.approx(expected)
    assert np.isnan(scores[Rung.KNOWN_JOB]).tolist() == [False, False, True]

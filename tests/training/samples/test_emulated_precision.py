"""Precisions that a device has no kernels for are not learned from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import synthetic_workloads as made_up

from perfmodel.features.steps.step import Step, StepSample
from perfmodel.training.samples.emulated_precision import without_emulated
from perfmodel.types import Precision

STEP = Step.of(made_up.samples(families=2)[1].workload)
JOBS = 5


def _samples(slower: float, jobs: int = JOBS, device: str = "card") -> list[StepSample]:
    """Return steps in fp32 and in fp16, which takes that many times as long."""
    spec = replace(STEP.accelerator, name=device)
    return [
        StepSample(
            step=replace(STEP, accelerator=spec, precision=precision),
            step_time_s=(number + 1) * times,
            model=f"zoo/{number}",
            family="f",
            source="table",
        )
        for number in range(jobs)
        for precision, times in ((Precision.FP32, 1.0), (Precision.FP16, slower))
    ]


def test_a_reduced_precision_that_is_slower_is_left_out() -> None:
    kept = without_emulated(_samples(2.0))
    assert [s.step.precision for s in kept] == JOBS * [Precision.FP32]


@pytest.mark.parametrize("slower", [0.5, 1.0, 1.4])
def test_one_that_is_faster_or_about_as_fast_stays(slower: float) -> None:
    samples = _samples(slower)
    assert without_emulated(samples) == samples


def test_a_few_jobs_may_be_mistakes() -> None:
    samples = _samples(3.0, jobs=JOBS - 1)
    assert without_emulated(samples) == samples


def test_another_device_and_another_table_stay() -> None:
    others = _samples(0.5, device="other card")
    elsewhere = [replace(s, source="other table") for s in _samples(0.9)]
    kept = without_emulated([*_samples(4.0), *others, *elsewhere])
    assert kept[JOBS:] == [*others, *elsewhere]


def test_what_was_never_measured_in_full_precision_stays() -> None:
    alone = [s for s in _samples(4.0) if s.step.precision is Precision.FP16]
    assert without_emulated(alone) == alone

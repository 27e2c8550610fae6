"""Seconds that measuring takes: repeats as profilers make them, of steps as the formulas say."""

from dataclasses import replace

import numpy as np
import pytest
from held_out_steps import corpus

from perfmodel.estimator.single.analytical import LAUNCH_S, TYPICAL_EFFICIENCY
from perfmodel.features.steps.step import Step
from perfmodel.features.steps.step_work import step_work
from perfmodel.training.probes.measuring_time import measuring_s

STEPS = [one.step for one in corpus(families=4, per_family=3)]


def _slower(step: Step, times: float) -> Step:
    spec = step.accelerator
    peaks = {key: peak / times for key, peak in spec.peak_flops.items()}
    slow = replace(spec, peak_flops=peaks, bandwidth_bytes_per_s=spec.bandwidth_bytes_per_s / times)
    return replace(step, accelerator=slow)


def test_measuring_never_takes_less_on_what_is_slower() -> None:
    seconds = [measuring_s([_slower(step, times) for step in STEPS]) for times in (1, 10, 1e4, 1e8)]
    assert np.all(np.diff(seconds, axis=0) >= 0)
    assert np.all(seconds[-1] > 10 * seconds[0])


def test_a_slow_step_is_repeated_as_few_times_as_profilers_do() -> None:
    step = _slower(STEPS[0], 1e6)
    work = step_work([step])
    step_s = (work.roofline_s[0] + LAUNCH_S * work.calls[0]) / TYPICAL_EFFICIENCY
    # Two to warm up, five that are timed, three under the profiler; eight seconds to start.
    assert measuring_s([step])[0] == pytest.approx(8.0 + 10 * step_s)

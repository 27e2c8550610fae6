"""A description under which steps were impossibly fast is raised to what they reached."""

from dataclasses import replace
from types import MappingProxyType

import pytest
import synthetic_workloads as made_up

from perfmodel.features.steps.step import Step, StepSample
from perfmodel.features.steps.step_table import step_bounds_s, step_table
from perfmodel.training.samples.raised_rates import missing_factors, raised, raised_spec

SPEC = made_up.samples(families=2)[1].workload.accelerator
MEASURED = replace(SPEC, sources=MappingProxyType({"peak_flops": "measured: best product"}))


def _samples(*times_of_the_bound: float) -> list[StepSample]:
    """Return one sample of a model each, that many times the bound long."""
    workload = replace(made_up.samples(families=2)[1].workload, accelerator=MEASURED)
    step = Step.of(workload)
    (bound_s,) = step_bounds_s(step_table([step]))
    return [
        StepSample(
            step=step, step_time_s=times * bound_s, model=f"zoo/{number}", family="f", source="s"
        )
        for number, times in enumerate(times_of_the_bound)
    ]


def test_what_three_models_reach_counts() -> None:
    samples = _samples(0.25, 0.4, 0.5, 2.0)
    assert missing_factors(samples) == {MEASURED.name: pytest.approx(2.0)}
    found = raised(samples)[0].step.accelerator
    assert found.peak_flops["fp32"] == pytest.approx(2 * MEASURED.peak_flops["fp32"])
    assert found.bandwidth_bytes_per_s == pytest.approx(2 * MEASURED.bandwidth_bytes_per_s)
    assert "raised 2.00 times" in found.sources["bandwidth_bytes_per_s"]


def test_one_or_two_models_may_be_mistakes() -> None:
    assert missing_factors(_samples(0.01, 0.1, 1.5, 2.0)) == {MEASURED.name: 1.0}
    assert missing_factors(_samples(0.01)) == {MEASURED.name: 1.0}
    assert missing_factors([]) == {}


def test_what_a_datasheet_says_stays() -> None:
    stated = replace(SPEC, sources=MappingProxyType({"peak_flops": "datasheet"}))
    assert raised_spec(stated, 3.0) == stated
    assert raised_spec(MEASURED, 1.0) == MEASURED

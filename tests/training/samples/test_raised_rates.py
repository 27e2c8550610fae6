"""A description under which steps were impossibly fast is raised to what they reached."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.devices.catalog import Catalog
from perfmodel.devices.codec import spec_to_dict
from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.errors import StoreError
from perfmodel.features.steps.step import Step, StepSample
from perfmodel.features.steps.step_table import step_bounds_s, step_table
from perfmodel.graph.job import Job
from perfmodel.records import Measurement, OperatorRecord, Provenance, StepRecord
from perfmodel.training.samples.raised_rates import (
    descriptions,
    missing_factors,
    product_flops,
    product_rate,
    raised,
    raised_spec,
)
from perfmodel.zoo.resolve import capture_job

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
    assert missing_factors(samples, [0.0] * 4) == {MEASURED.name: pytest.approx(2.0)}
    found = raised(samples, [0.0] * 4)[0].step.accelerator
    assert found.peak_flops["fp32"] == pytest.approx(2 * MEASURED.peak_flops["fp32"])
    assert found.bandwidth_bytes_per_s == pytest.approx(2 * MEASURED.bandwidth_bytes_per_s)
    assert "raised 2.00 times" in found.sources["bandwidth_bytes_per_s"]


def test_one_or_two_models_may_be_mistakes() -> None:
    assert missing_factors(_samples(0.01, 0.1, 1.5, 2.0), [0.0] * 4) == {MEASURED.name: 1.0}
    assert missing_factors(_samples(0.01), [0.0]) == {MEASURED.name: 1.0}
    assert missing_factors([], []) == {}


def test_what_products_within_steps_reach_counts_as_well() -> None:
    samples = _samples(2.0, 2.0, 2.0, 2.0)
    peak = MEASURED.flops_per_s(samples[0].step.precision)
    # On one of two cores half of the peak is all that can be asked for.
    cores = replace(MEASURED, kind="cpu", core_count=2)
    samples = [replace(s, step=replace(s.step, accelerator=cores, threads=1)) for s in samples]
    rates = [9.0 * peak, 2.0 * peak, 1.5 * peak, peak]
    assert missing_factors(samples, rates) == {MEASURED.name: pytest.approx(3.0)}


def test_the_fastest_product_of_a_step_is_told_from_convolutions() -> None:
    graph = capture_job(Job(model="zoo/operator-linear", batch_size=1))
    flops = product_flops(graph)
    (linear,) = np.flatnonzero(flops)
    record = _record(MEASURED)
    timed = OperatorRecord(
        workload_hash=record.workload_hash, node=int(linear), op=graph.nodes[linear].op,
        phase=graph.nodes[linear].phase, time_s=2.0,
    )  # fmt: skip
    other = replace(timed, node=len(flops))
    measured = Measurement(step=record, operators=(timed, other))
    assert product_rate(measured, flops) == flops[linear] / 2.0
    assert product_rate(Measurement(step=record), flops) == 0.0
    assert not product_flops(capture_job(Job(model="zoo/operator-convolution", batch_size=1))).any()


def test_what_a_datasheet_says_stays() -> None:
    stated = replace(SPEC, sources=MappingProxyType({"peak_flops": "datasheet"}))
    assert raised_spec(stated, 3.0) == stated
    assert raised_spec(MEASURED, 1.0) == MEASURED


def test_the_highest_of_each_measured_rate_counts_whenever_it_was_taken() -> None:
    quiet = replace(
        MEASURED, peak_flops=MappingProxyType({"fp32": 2e11, "bf16": 4e11}),
        bandwidth_bytes_per_s=1e10,
    )  # fmt: skip
    # Beside others fp32 came to a hundredth, so that fp16 seemed a rate worth stating.
    busy = replace(
        MEASURED, peak_flops=MappingProxyType({"fp32": 2e9, "bf16": 3e9, "fp16": 3e9}),
        bandwidth_bytes_per_s=2e10,
    )  # fmt: skip
    for specs in ((quiet, busy), (busy, quiet)):
        found = descriptions([_record(spec) for spec in specs])[MEASURED.name]
        assert dict(found.peak_flops) == {"fp32": 2e11, "bf16": 4e11}
        assert found.bandwidth_bytes_per_s == 2e10


def test_of_stated_rates_the_first_ones_hold() -> None:
    stated = replace(SPEC, sources=MappingProxyType({"peak_flops": "datasheet"}))
    later = replace(stated, bandwidth_bytes_per_s=2 * stated.bandwidth_bytes_per_s)
    found = descriptions([_record(stated), _record(later)])[SPEC.name]
    assert found.bandwidth_bytes_per_s == stated.bandwidth_bytes_per_s


def test_records_of_another_device_under_a_name_of_the_catalogue_are_refused() -> None:
    a100, h200 = (Catalog.default().get(name) for name in ("A100-SXM4-80GB", "H200-SXM"))
    assert descriptions([_record(a100)])[a100.name].memory_bytes == a100.memory_bytes
    mistaken = replace(h200, name=a100.name)
    with pytest.raises(StoreError, match="state bandwidth_bytes_per_s 4.8e.12, the catalogue 2"):
        descriptions([_record(a100), _record(mistaken)])
    # Of CPUs the catalogue has what makers state; what was measured of a machine holds.
    measured = replace(mistaken, sources=MEASURED.sources)
    assert descriptions([_record(measured)])[a100.name].memory_bytes == h200.memory_bytes


def _record(spec: AcceleratorSpec) -> StepRecord:
    workload = made_up.samples(families=2)[1].workload
    return StepRecord(
        workload_hash="0" * 32, graph_hash="0" * 32, model="m", family="f", job={},
        accelerator=spec.name, mode=workload.mode, batch_size=1, precision=workload.precision,
        memory_format=workload.memory_format, compiler=workload.compiler, step_time_s=0.5,
        samples_s=(0.5,), low_s=0.5, high_s=0.5, spread=0.01, noisy=False, warmup_steps=2,
        peak_memory_bytes=1e6,
        provenance=Provenance(
            accelerator=spec_to_dict(spec), software={}, measured_at="2026-01-01T00:00:00Z",
            source="made up",
        ),
    )  # fmt: skip

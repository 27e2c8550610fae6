"""An explanation adds up to the answer that it explains, on every placement."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from synthetic_workloads import mlp

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import InvalidInputError
from perfmodel.estimator import CapturedStep, Estimator
from perfmodel.estimator.explain.explain import Explanation, contributions
from perfmodel.estimator.single.analytical import LAUNCH_S, TYPICAL_EFFICIENCY, AnalyticalModel
from perfmodel.features.kernels.kernel_calls import KernelCalls
from perfmodel.graph.job import Job
from perfmodel.placement.calibration.observation import Observation
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.predictors.explanation import Stage
from perfmodel.predictors.kernels.kernel_times import AnalyticalKernels, KernelTimes
from perfmodel.types import Compiler, Mode, Precision

JOB = Job(model="zoo/two", mode=Mode.TRAINING, batch_size=2000)
SERVING = replace(JOB, mode=Mode.INFERENCE)

PLACEMENTS: dict[str, Any] = {
    "one": "A10",
    "eight": "8xA100-SXM4-80GB",
    "hosts": "2x(8xA100-SXM4-80GB)@eth-10g",
    "kinds": {
        "nodes": [{"accelerator": "A100-SXM4-80GB"}, {"accelerator": "T4"}],
        "network": "eth-25g",
    },
    "dealt": {
        "nodes": [{"accelerator": "H100-SXM5-80GB"}, {"accelerator": "T4"}],
        "network": "eth-25g",
        "plan": {"data": 2, "batch_split": "proportional"},
    },
    "slice": "A100-SXM4-40GB/3g.20gb",
    "share": {"nodes": [{"accelerator": "A10"}], "fraction": 0.5},
    "limit": {"nodes": [{"accelerator": "A10"}], "power_limit_w": 75.0},
    "neighbour": {"nodes": [{"accelerator": "A10"}], "shared_with": ["ResNet-18"]},
    "starved": {
        "nodes": [{"accelerator": "A10"}], "cpu_cores": 1, "storage_bytes_per_s": 1e4,
    },
    "pipeline": {"nodes": [{"accelerator": "A10", "count": 4}], "plan": {"data": 2, "pipeline": 2}},
    "sharded": {"nodes": [{"accelerator": "A10", "count": 4}], "plan": {"zero_stage": 3}},
}  # fmt: skip


class TwoGraphs:
    """A network of 64 layers for every job."""

    def step(self, job: Job) -> CapturedStep:
        """Return it at the batch of the job."""
        training = job.mode is Mode.TRAINING
        return CapturedStep(graph=mlp(job.batch_size, [512] * 65, "relu", training=training))


@pytest.fixture(scope="module")
def analytical() -> Estimator:
    return Estimator(accelerators=Catalog.default(), model=AnalyticalModel(), graphs=TwoGraphs())


def _explain(estimator: Estimator, placement: Any, **how: Any) -> Explanation:
    return estimator.explain(how.pop("job", JOB), parse_placement(placement), **how)


def _check(found: Explanation) -> None:
    """Assert what holds of every explanation."""
    factors = math.prod(one.factor for one in found.contributions)
    first, last = found.contributions[0], found.contributions[-1]
    assert first.name == "roofline"
    assert first.factor == 1.0
    assert first.step_time_s * factors == pytest.approx(last.step_time_s, rel=1e-12)
    assert last.step_time_s == found.estimate.step_time_s
    for share in (found.operator_classes, found.operators):
        times = [one.time_s for one in share]
        assert times == sorted(times, reverse=True)
        assert sum(times) == pytest.approx(found.compute_time_s, rel=1e-9)
    assert sum(one.share for one in found.operator_classes) == pytest.approx(1.0)


@pytest.mark.parametrize("placement", PLACEMENTS.values(), ids=PLACEMENTS.keys())
@pytest.mark.parametrize("job", [JOB, SERVING], ids=["training", "serving"])
def test_factors_and_operators_add_up_to_the_answer(
    analytical: Estimator, placement: Any, job: Job
) -> None:
    try:
        answer = analytical.estimate(job, parse_placement(placement))
    except InvalidInputError:
        pytest.skip("no answer, no explanation")
    found = _explain(analytical, placement, job=job, most=1000)
    assert found.estimate == answer
    _check(found)


@pytest.mark.parametrize("placement", ["one", "eight", "hosts", "kinds", "limit", "slice"])
def test_operators_add_up_to_what_the_answer_calls_computing(
    analytical: Estimator, placement: str
) -> None:
    found = _explain(analytical, PLACEMENTS[placement])
    assert found.compute_time_s == pytest.approx(found.estimate.breakdown.compute_s, rel=1e-9)


def test_a_placement_shows_in_the_factors(analytical: Estimator) -> None:
    names = {
        key: [one.name for one in _explain(analytical, placement).contributions]
        for key, placement in PLACEMENTS.items()
    }
    alone = ["roofline", "launches", "typical efficiency"]
    assert names["one"] == alone
    assert names["slice"] == names["share"] == [*alone, "part of the accelerator"]
    assert names["limit"] == [*alone, "power limit"]
    assert names["neighbour"] == [*alone, "jobs on the same accelerator"]
    assert names["hosts"] == [*alone, "stragglers and host", "exposed communication"]
    assert names["starved"] == [*alone, "waiting for data"]
    assert names["dealt"][3] == "division of the batch"
    assert names["pipeline"][3] == "parallel plan"


def test_the_analytical_chain_follows_from_its_formula(analytical: Estimator) -> None:
    found = _explain(analytical, "A10")
    roofline, launches, efficiency = found.contributions
    calls = sum(one.count for one in found.operator_classes if one.name != "view")
    launched_s = roofline.step_time_s + calls * LAUNCH_S
    assert launches.step_time_s == pytest.approx(launched_s)
    assert efficiency.factor == pytest.approx(1 / TYPICAL_EFFICIENCY)


def test_what_binds_an_operator_follows_from_its_intensity(analytical: Estimator) -> None:
    found = _explain(analytical, "A10", most=1000)
    roofline = found.roofline
    assert roofline.ridge_intensity == roofline.peak_flops_per_s / roofline.memory_bytes_per_s
    bounds = set()
    for one in found.operators:
        if one.bound == "launch" or one.time_s == 0:
            continue
        bounds.add(one.bound)
        own_ridge = (one.peak_flops_per_s or 0.0) / roofline.memory_bytes_per_s
        computes = one.intensity is not None and one.intensity >= own_ridge > 0
        assert (one.bound == "compute") == computes, one
    assert bounds == {"compute", "memory"}


def test_a_part_is_held_against_its_own_peak(analytical: Estimator) -> None:
    part, whole = (_explain(analytical, on) for on in (PLACEMENTS["slice"], "A100-SXM4-40GB"))
    assert part.roofline.accelerator == "A100-SXM4-40GB/3g.20gb"
    # 42 of 108 SMs, half of the bandwidth.
    peaks = part.roofline.peak_flops_per_s, whole.roofline.peak_flops_per_s
    assert peaks[0] == pytest.approx(peaks[1] * 42 / 108)
    assert part.roofline.memory_bytes_per_s == whole.roofline.memory_bytes_per_s / 2
    (own,), (all_of_it,) = (
        {one.peak_flops_per_s for one in found.operators if one.operator_class == "matmul"}
        for found in (part, whole)
    )
    assert own == pytest.approx((all_of_it or 0.0) * 42 / 108)


def test_the_slowest_kind_is_explained(analytical: Estimator) -> None:
    found = _explain(analytical, PLACEMENTS["kinds"])
    assert found.roofline.accelerator == "T4"


def test_at_most_as_many_groups_as_asked_for(analytical: Estimator) -> None:
    few, many = (_explain(analytical, "A10", most=most) for most in (2, 1000))
    assert few.operators == many.operators[:2]
    assert few.operator_classes == many.operator_classes


def test_a_step_of_launches_alone_has_no_factor_to_no_time() -> None:
    # One small product takes less at the peak than its launch, and nothing beside it.
    stages = [
        Stage(name=name, time_s=time_s)
        for name, time_s in (("roofline", 1e-9), ("work", 0.0), ("launches", 5e-6))
    ]
    first, last = contributions(stages, 5e-6)
    assert (first.name, last.name) == ("roofline", "launches")
    assert last.factor == pytest.approx(5e3)


def test_a_step_without_priced_work_begins_after_the_roofline() -> None:
    stages = [Stage(name="roofline", time_s=0.0), Stage(name="launches", time_s=5e-6)]
    (only,) = contributions(stages, 5e-6)
    assert (only.name, only.factor, only.step_time_s) == ("launches", 1.0, 5e-6)


def test_observations_come_last(analytical: Estimator) -> None:
    one_s = analytical.estimate(JOB, parse_placement("A10")).step_time_s
    seen = Observation(
        placement=parse_placement("A10"), batch_size=JOB.batch_size, step_time_s=1.5 * one_s
    )
    found = _explain(analytical, "8xA10", observations=[seen], most=1000)
    assert found.estimate == analytical.estimate(JOB, parse_placement("8xA10"), [seen])
    _check(found)
    names = [one.name for one in found.contributions]
    assert names[-1] == "observations of this job"
    (near,) = found.nearest
    assert near.source == "observation"
    assert near.measured_s == 1.5 * one_s
    assert near.predicted_s == one_s
    # The same batch and kind, on an eighth of the accelerators.
    assert near.distance == pytest.approx(math.log(8))


def test_observations_of_several_come_last(analytical: Estimator) -> None:
    placement = parse_placement("4xA10")
    many_s = analytical.estimate(JOB, placement).step_time_s
    seen = Observation(placement=placement, batch_size=JOB.batch_size, step_time_s=1.3 * many_s)
    found = _explain(analytical, "4xA10", observations=[seen], most=1000)
    _check(found)
    assert found.contributions[-1].name == "observations of this job"
    assert found.compute_time_s == pytest.approx(found.estimate.breakdown.compute_s, rel=1e-9)


def test_observations_of_other_jobs_are_told_apart(analytical: Estimator) -> None:
    placement = parse_placement("4xA10")
    other = replace(JOB, batch_size=500, mode=Mode.TRAINING, precision=Precision.FP16)
    other_s = analytical.estimate(other, placement).step_time_s
    seen = Observation(placement=placement, batch_size=500, step_time_s=1.5 * other_s, job=other)
    found = _explain(analytical, "4xA10", observations=[seen], most=1000)
    _check(found)
    assert found.contributions[-1].name == "observations of other jobs"
    assert found.contributions[-1].factor > 1.0
    # A step of another job is no measurement of this one.
    assert found.nearest == ()


def test_a_model_that_does_not_explain_itself_is_explained_by_formulas(
    estimator: Estimator,
) -> None:
    found = _explain(estimator, "8xA10", most=1000)
    _check(found)
    assert found.estimate == estimator.estimate(JOB, parse_placement("8xA10"))


def test_a_job_type_has_nothing_to_explain(analytical: Estimator) -> None:
    with pytest.raises(InvalidInputError, match="no graph") as refused:
        _explain(analytical, "A10", job=Job(job_type="renderer", batch_size=1))
    assert refused.value.pointer == "/job/job_type"


def test_an_explanation_is_remembered_by_the_version_that_gave_it(analytical: Estimator) -> None:
    _explain(analytical, "A10")
    key = (analytical.core.prepare(JOB).key, "A10", "roofline")
    assert analytical.core.explained.get(key) is not None


class _Kernels:
    """Every product takes 1 ms, nothing else was learned."""

    version = "kernels/made-up"

    def times(self, calls: KernelCalls) -> KernelTimes:
        """Return 1 ms for each product."""
        found = AnalyticalKernels().times(calls)
        products = np.isin(calls.op, ("gemm", "bmm"))
        return replace(
            found,
            device_s=np.where(products, 1e-3, found.device_s),
            carries_over=products,
        )


def test_kernels_that_were_learned_alone_divide_the_step() -> None:
    asked = Estimator(
        accelerators=Catalog.default(), model=AnalyticalModel(), graphs=TwoGraphs(),
        kernel_model=_Kernels(),
    )  # fmt: skip
    found = _explain(asked, "A10", most=1000)
    _check(found)
    of_kernels = [one for one in found.operators if one.rests_on == "kernels"]
    assert {one.operator_class for one in of_kernels} == {"matmul"}
    assert {one.rests_on for one in found.operators} == {"kernels", "model"}
    # Work of 1 ms and a launch of 5 us each; all is then scaled by one factor.
    each = [one.time_s / one.count for one in of_kernels]
    assert max(each) == pytest.approx(min(each))
    views = [one for one in found.operators if one.time_s == 0]
    assert all(one.rests_on == "model" for one in views)


def test_what_a_compiler_fuses_is_divided_by_the_model() -> None:
    asked = Estimator(
        accelerators=Catalog.default(), model=AnalyticalModel(), graphs=TwoGraphs(),
        kernel_model=_Kernels(),
    )  # fmt: skip
    job = replace(JOB, compiler=Compiler.INDUCTOR)
    found = _explain(asked, "A10", job=job, most=1000)
    assert {one.rests_on for one in found.operators} == {"model"}

"""Laws that hold for the predictors whose equations promise them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.graph.cost import cost_table
from perfmodel.predictors.members.constant import ConstantRatePredictor
from perfmodel.predictors.members.efficiency import ASSUMED_EFFICIENCY, EfficiencyPredictor
from perfmodel.predictors.roofline import RooflinePredictor

SAMPLES = made_up.samples(families=8)


def _faster(factor: float) -> object:
    spec = made_up.DEVICE
    return dataclasses.replace(
        spec,
        peak_flops={key: factor * rate for key, rate in spec.peak_flops.items()},
        bandwidth_bytes_per_s=factor * spec.bandwidth_bytes_per_s,
    )


def test_roofline_of_one_product_by_hand() -> None:
    # [64, 64] x [64, 64]: 2 * 64^3 = 524 288 FLOP at 2e11 FLOP/s = 2.62 us;
    # the product reads 2 matrices and a bias and writes one: (3 * 64^2 + 64) * 4 = 49 408 bytes
    # at 2e10 B/s = 2.47 us; the activation reads and writes one matrix: 32 768 B = 1.64 us.
    graph = made_up.mlp(64, [64, 64], "relu", training=False)
    assert [node.op for node in graph.nodes] == ["addmm", "relu"]
    cost = cost_table(graph)
    # The bias may be counted as one more addition per element.
    assert cost.flops[0] == pytest.approx(524_288, rel=0.02)
    times = RooflinePredictor().predict_nodes(made_up.workload(graph, 64, training=False))
    assert times == pytest.approx([2.62e-6, 1.64e-6], rel=0.02)


def test_launches_add_to_the_roofline() -> None:
    workload = SAMPLES[0].workload
    plain, launched = RooflinePredictor(), RooflinePredictor(launch_s=1e-5)
    kernels = int(
        np.count_nonzero(launched.predict_nodes(workload) > plain.predict_nodes(workload))
    )
    assert launched.predict([workload])[0] - plain.predict([workload])[0] == pytest.approx(
        1e-5 * kernels
    )


@pytest.mark.parametrize("predictor", [RooflinePredictor(), EfficiencyPredictor().fit(SAMPLES)])
def test_a_faster_device_is_not_slower(predictor: RooflinePredictor | EfficiencyPredictor) -> None:
    workloads = [sample.workload for sample in SAMPLES]
    fast = [dataclasses.replace(w, accelerator=_faster(2.0)) for w in workloads]
    slow_times, fast_times = predictor.predict(workloads), predictor.predict(fast)
    assert np.all(fast_times <= slow_times)
    assert np.all(fast_times >= slow_times / 2.0 * (1 - 1e-12))


def test_fewer_threads_are_not_faster() -> None:
    for sample in SAMPLES[:8]:
        two, one = (dataclasses.replace(sample.workload, threads=n) for n in (2, 1))
        times = RooflinePredictor().predict([two, one])
        assert times[1] >= times[0]


def test_efficiencies_of_the_hidden_law_are_found() -> None:
    # The law gives products 0.7 * size and activations 0.6 * size with size in [0.2, 1].
    found = EfficiencyPredictor().fit(SAMPLES).by_kind_
    assert found is not None
    assert 0.35 < found["cpu"].by_class["matmul"] <= 0.75
    assert 0.25 < found["cpu"].by_class["convolution"] <= 0.6


def test_an_unmeasured_kind_of_device_is_answered_by_assumption() -> None:
    gpu = dataclasses.replace(made_up.DEVICE, name="made-up-gpu", kind="gpu")
    predictor = EfficiencyPredictor().fit(SAMPLES)
    workload = dataclasses.replace(SAMPLES[-1].workload, accelerator=gpu)
    time_s = float(predictor.predict([workload])[0])
    roofline_s = float(RooflinePredictor().predict([workload])[0])
    assert (
        roofline_s
        < time_s
        < roofline_s / min(ASSUMED_EFFICIENCY.values()) + 1e-5 * len(workload.graph.nodes)
    )
    assert predictor.knows("cpu") and not predictor.knows("gpu")


def test_constant_rate_is_the_geometric_mean_of_its_mode() -> None:
    predictor = ConstantRatePredictor().fit(SAMPLES)
    training = [s for s in SAMPLES if s.workload.mode.value == "training"]
    errors = np.log(
        predictor.predict([s.workload for s in training]) / [s.step_time_s for s in training]
    )
    assert errors.mean() == pytest.approx(0.0, abs=1e-9)

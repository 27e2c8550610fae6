from __future__ import annotations

from dataclasses import replace

import pytest
import synthetic_workloads as made_up

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.single.analytical import (
    EFFICIENCY_RANGE,
    LAUNCH_S,
    TYPICAL_EFFICIENCY,
    AnalyticalModel,
)
from perfmodel.features.nodes import node_table
from perfmodel.features.roofline import node_roofline, step_bound_s
from perfmodel.graph.workload import Workload
from perfmodel.types import Compiler, Mode, Role

MODEL = AnalyticalModel()


@pytest.fixture(scope="module")
def workload() -> Workload:
    built = made_up.GraphBuilder()
    given = built.tensor((64, 4096), Role.INPUT)
    weight = built.tensor((4096, 4096), Role.PARAMETER)
    (product,) = built.node("mm", (given, weight), [(64, 4096)])
    (positive,) = built.node("relu", (product,), [(64, 4096)])
    built.node("tanh", (positive,), [(64, 4096)])
    accelerator = Catalog.default().get("A100-SXM4-40GB")
    return Workload(
        graph=built.build(), accelerator=accelerator, mode=Mode.INFERENCE, batch_size=64
    )


def test_a_step_is_its_roofline_and_its_calls_over_one_share(workload: Workload) -> None:
    (found,) = MODEL.predict([workload])
    calls = int((~node_table(workload.graph).is_view).sum())
    whole_s = node_roofline(workload).roofline_s.sum() + LAUNCH_S * calls
    assert found.time_s == pytest.approx(whole_s / TYPICAL_EFFICIENCY)
    worst, best = EFFICIENCY_RANGE
    assert found.high_s == pytest.approx(whole_s / worst)
    assert found.low_s == pytest.approx(max(whole_s / best, step_bound_s(workload)))


def test_an_operator_costs_30_us_of_the_host() -> None:
    # 18 us at a share of 0.6.
    assert pytest.approx(30e-6) == LAUNCH_S / TYPICAL_EFFICIENCY


def test_what_a_compiler_fuses_is_called_once_and_stays_in_the_kernel(workload: Workload) -> None:
    fused = replace(workload, compiler=Compiler.INDUCTOR)
    (eager,), (compiled,) = MODEL.predict([workload]), MODEL.predict([fused])
    # One call less, and what relu leaves to tanh is neither written nor read: 1 MiB each.
    saved_s = LAUNCH_S + 2 * 4 * 64 * 4096 / workload.accelerator.bandwidth_bytes_per_s
    assert eager.time_s - compiled.time_s == pytest.approx(saved_s / TYPICAL_EFFICIENCY)


@pytest.mark.parametrize("compiler", list(Compiler))
def test_no_end_of_an_interval_beats_the_bound(workload: Workload, compiler: Compiler) -> None:
    one = replace(workload, compiler=compiler)
    (found,) = MODEL.predict([one])
    assert step_bound_s(one) <= found.low_s <= found.time_s <= found.high_s

"""What an inference takes that runs as one program out of memory on the chip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import synthetic_workloads as made_up

from perfmodel.estimator.single.analytical import LAUNCH_S, AnalyticalModel, explain_roofline
from perfmodel.features.roofline import (
    PROGRAM_CALL_S,
    PROGRAM_EFFICIENCY,
    is_program,
    node_roofline,
    node_work,
)
from perfmodel.graph.workload import Workload
from perfmodel.predictors.members.efficiency import EfficiencyPredictor
from perfmodel.types import Compiler, Mode, Precision

NPU = replace(made_up.DEVICE, kind="npu", cache_bytes=None, peak_flops={"fp32": 2e11, "bf16": 8e11})


def _step(batch: int, precision: Precision = Precision.FP32) -> Workload:
    graph = made_up.mlp(batch, [64, 64, 64], "relu", training=False)
    step = made_up.workload(graph, batch, training=False)
    return replace(step, accelerator=NPU, compiler=Compiler.INDUCTOR, precision=precision)


def test_programs_are_inference_that_an_npu_compiles_or_a_tpu_runs() -> None:
    step = _step(8)
    assert is_program(step)
    assert is_program(replace(step, compiler=Compiler.ONNXRUNTIME))
    assert not is_program(replace(step, compiler=Compiler.EAGER))
    assert not is_program(replace(step, mode=Mode.TRAINING))
    assert not is_program(replace(step, accelerator=replace(NPU, kind="gpu")))
    tpu = replace(NPU, kind="tpu")
    assert is_program(replace(step, accelerator=tpu, compiler=Compiler.EAGER))


def test_weights_and_inputs_come_from_outside() -> None:
    # Bias and weight of each layer, and the 8 rows of the first; activations stay on the chip.
    layer = 4 * (64 + 64 * 64)
    work = node_work(_step(8).graph)
    outside = work.from_outside(Precision.FP32)
    assert outside.tolist() == [layer + 4 * 8 * 64, 0, layer, 0]
    np.testing.assert_allclose(work.from_outside(Precision.AMP_BF16), outside / 2)


def test_a_program_takes_its_products_and_what_it_reads_from_outside() -> None:
    step = _step(512)
    roofline = node_roofline(step)
    products = 2 * 512 * 64 * 64 / 2e11
    assert roofline.compute_s.tolist() == pytest.approx([products, 0, products, 0])
    outside = node_work(step.graph).from_outside(step.precision)
    assert roofline.memory_s[0] == pytest.approx(outside[0] / 2e10)
    assert np.all(roofline.bound_s <= roofline.roofline_s)


def test_a_program_is_called_once() -> None:
    step = _step(8)
    expected = node_roofline(step).roofline_s.sum() / PROGRAM_EFFICIENCY + PROGRAM_CALL_S
    assumed = EfficiencyPredictor().fit(made_up.samples(families=2))
    for time_s in (AnalyticalModel().predict([step])[0].time_s, assumed.predict([step])[0]):
        assert time_s == pytest.approx(expected)
    nodes = explain_roofline(step, expected).nodes
    assert nodes.launch_s.sum() == pytest.approx(LAUNCH_S)
    eager = replace(step, compiler=Compiler.EAGER)
    calls = sum(not view for view in node_work(step.graph).is_view)
    assert AnalyticalModel().predict([eager])[0].time_s > (calls - 1) * PROGRAM_CALL_S


def test_what_a_program_does_beside_its_products_has_no_peak() -> None:
    nodes = explain_roofline(_step(8), 1.0).nodes
    computes = nodes.compute_s > 0
    assert computes.tolist() == [True, False, True, False]
    assert nodes.flops[computes] / nodes.compute_s[computes] == pytest.approx(2e11)

"""What predictions and equations say together of language models on one accelerator."""

from __future__ import annotations

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator.core.core import Core
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.graph_library import GraphLibrary
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.single.plan_engine import single_with_plan_engine, transformer_training
from perfmodel.predictors.prediction import Prediction
from perfmodel.requests import parse_query
from perfmodel.types import Basis, Compiler, Precision

H100 = Catalog.default().get("H100-SXM5-80GB")


def _prepared(compiler: Compiler) -> PreparedJob:
    asked = {
        "model": "openai-community/gpt2", "mode": "training", "batch_size": 8,
        "sequence_length": 1024, "precision": "amp_bf16", "optimizer": "adamw",
        "compiler": compiler.value,
    }  # fmt: skip
    job = parse_query({"job": asked, "placement": H100.name}).job
    core = Core(
        accelerators=Catalog.default(),
        model=AnalyticalModel(),
        graphs=GraphLibrary(capture=capture_in_process),
    )
    return core.prepare(job)


@pytest.fixture(scope="module")
def eager() -> PreparedJob:
    return _prepared(Compiler.EAGER)


@pytest.fixture(scope="module")
def compiled() -> PreparedJob:
    return _prepared(Compiler.INDUCTOR)


def _predicted(time_s: float) -> Prediction:
    return Prediction(
        time_s=time_s, low_s=time_s / 1.2, high_s=time_s * 1.2, coverage=0.9,
        basis=Basis.INTERPOLATED, out_of_distribution=False, nearest=(), model_version="a/1",
    )  # fmt: skip


def test_a_prediction_that_says_it_is_sure_hardly_moves_the_equations(
    compiled: PreparedJob,
) -> None:
    fast, near, slow = (
        single_with_plan_engine(compiled, H100, _predicted(s)) for s in (0.01, 0.04, 0.16)
    )
    # Sixteen times as long does not double it; where both disagree it is less sure.
    assert 1.0 < slow.time_s / fast.time_s < 2.0
    for one in (fast, slow):
        assert one.high_s / one.low_s > near.high_s / near.low_s


def test_operators_that_run_one_by_one_take_longer_than_fused_ones(
    eager: PreparedJob, compiled: PreparedJob
) -> None:
    by_one, fused = (
        single_with_plan_engine(one, H100, _predicted(0.04)) for one in (eager, compiled)
    )
    assert by_one.time_s > 1.1 * fused.time_s


def test_no_interval_reaches_below_the_arithmetic(compiled: PreparedJob) -> None:
    ipu = Catalog.default().get("IPU-GC200")
    found = single_with_plan_engine(compiled, ipu, _predicted(0.04))
    training = transformer_training(compiled)
    assert training is not None
    least_s = 8 * training.shape.sample_flops / ipu.flops_per_s(Precision.BF16)
    # Its half width alone would reach down to 0.82 of it.
    assert found.low_s == pytest.approx(least_s)
    assert found.low_s < found.time_s

"""Inference by TensorRT through the estimator, with the shipped constants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.explain.explain import ENGINE_ROOFLINE
from perfmodel.estimator.jobs.capture import capture_in_process
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.single.engine import ENGINE_WARNING
from perfmodel.estimator.single.revised import revised
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis, Compiler, Mode, Precision

CATALOG = Catalog.default()
RESNET = Job(
    model="zoo/resnet50-v1.5", mode=Mode.INFERENCE, batch_size=256, precision=Precision.INT8,
    compiler=Compiler.TENSORRT,
)  # fmt: skip
ONE = replace(RESNET, model="zoo/one", batch_size=64)


@pytest.fixture(scope="module")
def resnet() -> PreparedJob:
    return PreparedJob(job=RESNET, key="resnet", step=capture_in_process(RESNET))


def _answer(prepared: PreparedJob, device: str) -> Prediction:
    spec = CATALOG.get(device)
    (analytical,) = AnalyticalModel().predict([prepared.on(spec)])
    return revised(prepared, spec, analytical)


@pytest.mark.parametrize(
    ("device", "published"),
    # Orders of magnitude of MLPerf inference, rounded to a tenth; the law is off by less than 25 %.
    [("T4", 5800), ("A100-SXM4-80GB", 40_000), ("L4", 13_000), ("H100-SXM5-80GB", 88_000)],
)
def test_resnet_in_int8_is_as_fast_as_published(
    resnet: PreparedJob, device: str, published: float
) -> None:
    found = _answer(resnet, device)
    assert 256 / found.time_s == pytest.approx(published, rel=0.25)
    assert found.low_s < found.time_s < found.high_s
    assert 256 / found.high_s < published < 256 / found.low_s
    assert found.basis is Basis.EXTRAPOLATED
    assert found.warnings == (ENGINE_WARNING,)


@pytest.mark.parametrize(
    ("change", "device"),
    [
        ({"compiler": Compiler.EAGER}, "A100-SXM4-80GB"),
        ({"mode": Mode.TRAINING, "precision": Precision.FP16}, "A100-SXM4-80GB"),
        ({"precision": Precision.FP32}, "A100-SXM4-80GB"),
        ({}, "MI300X"),
    ],
)
def test_nothing_else_is_answered_by_the_law(
    estimator: Estimator, change: dict[str, object], device: str
) -> None:
    found = estimator.estimate(replace(ONE, **change), parse_placement(device))  # type: ignore[arg-type]
    assert ENGINE_WARNING not in found.warnings
    assert any("Nothing was learned of" in said for said in found.warnings)


def test_bytes_and_peaks_of_a_type_count(estimator: Estimator) -> None:
    place = parse_placement("A100-SXM4-80GB")
    in_int8, in_fp16 = (
        estimator.estimate(replace(ONE, precision=p), place).step_time_s
        for p in (Precision.INT8, Precision.FP16)
    )
    assert in_int8 < in_fp16


def test_the_law_is_the_last_stage_of_an_explanation(estimator: Estimator) -> None:
    explains = Estimator(
        accelerators=CATALOG, model=AnalyticalModel(), graphs=estimator.core.graphs
    )
    found = explains.explain(ONE, parse_placement("T4"))
    assert found.contributions[-1].name == "law of tuned engines"
    assert found.contributions[-1].step_time_s == pytest.approx(found.estimate.step_time_s)


def test_an_explanation_begins_at_the_roofline_of_the_engine(estimator: Estimator) -> None:
    found = estimator.explain(ONE, parse_placement("T4"))
    first, *_ = found.contributions
    assert first.name == ENGINE_ROOFLINE
    # One product of 64 x 64 x 32 in int8; no engine is faster than its peak.
    assert first.step_time_s >= 2 * 64 * 64 * 32 / 130e12
    assert all(one.factor >= 1.0 for one in found.contributions)


def test_weights_in_8_bits_take_a_byte_each(estimator: Estimator) -> None:
    def peak(precision: Precision) -> float:
        job = replace(ONE, precision=precision)
        found = estimator.estimate(job, parse_placement("T4")).memory.peak_bytes
        assert found is not None
        return found

    # The stand-in's 64 x 32 weights are in fp32; half of them is left.
    assert peak(Precision.FP16) - peak(Precision.INT8) == pytest.approx(64 * 32 * 4 / 2)

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfmodel.devices.catalog import Catalog
from perfmodel.estimator import Estimator
from perfmodel.estimator.single.analytical import AnalyticalModel
from perfmodel.estimator.single.revised import unsupported
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.predictors.emulation import emulation
from perfmodel.types import Basis, Compiler, Precision

CATALOG = Catalog.default()


def _told(device: str, precision: Precision, compiler: Compiler = Compiler.EAGER) -> str:
    job = Job(model="zoo/one", precision=precision, compiler=compiler)
    return " ".join(unsupported(job, CATALOG.get(device)))


@pytest.mark.parametrize(
    ("device", "precision", "used"),
    [
        ("V100-SXM2-16GB", Precision.BF16, "fp32"),
        ("T4", Precision.AMP_BF16, "fp32"),
        ("A100-SXM4-40GB", Precision.FP8, "bf16"),
        ("V100-SXM2-16GB", Precision.FP8, "fp16"),
        ("V100-SXM2-16GB", Precision.TF32, "fp32"),
        ("P100-SXM2-16GB", Precision.AMP_FP16, "fp32"),
        ("TPU-v4", Precision.FP32, "bf16"),
    ],
)
def test_a_type_without_units_is_named_with_the_rate_that_stands_in(
    device: str, precision: Precision, used: str
) -> None:
    said = _told(device, precision)
    assert f"{device} has no {precision.matrix_rate} arithmetic" in said
    assert f"at its {used} rate" in said
    # TF32 is fp32 there; nothing is emulated.
    assert ("emulate" in said) == (precision is not Precision.TF32)


@pytest.mark.parametrize("precision", list(Precision))
def test_nothing_is_said_of_what_a_card_has(precision: Precision) -> None:
    # Hopper multiplies every type that can be asked for; of two of them nothing was learned.
    said = _told("H100-SXM5-80GB", precision)
    assert "has no" not in said
    assert bool(said) == (precision in (Precision.FP8, Precision.INT8))


def test_tensorrt_is_of_one_maker() -> None:
    alone = "TensorRT runs on NVIDIA GPUs alone"
    for device in ("MI300X", "EPYC-9654", "TPU-v4"):
        assert alone in _told(device, Precision.BF16, Compiler.TENSORRT)
    assert alone not in _told("A10", Precision.BF16, Compiler.TENSORRT)


def test_openvino_has_no_backend_for_gpus_of_others() -> None:
    alone = "OpenVINO runs on CPUs and on GPUs by Intel alone"
    for device in ("A100-SXM4-80GB", "MI300X", "TPU-v4", "Gaudi2", "Apple-M1-GPU"):
        assert alone in _told(device, Precision.FP32, Compiler.OPENVINO)
    for device in ("EPYC-9654", "Graviton2", "Arc-Pro-B60"):
        assert alone not in _told(device, Precision.FP32, Compiler.OPENVINO)


@pytest.mark.parametrize(
    ("device", "runs"),
    [
        ("K80", False), ("P100-SXM2-16GB", False), ("GTX-1080Ti", False), ("V100-SXM2-16GB", True),
        ("T4", True), ("MI100", True), ("EPYC-7742", True),
    ],
)  # fmt: skip
def test_pytorch_compiles_for_volta_and_later(device: str, runs: bool) -> None:
    told = _told(device, Precision.FP32, Compiler.INDUCTOR)
    assert ("does not run so" in told) is not runs
    assert "does not run so" not in _told(device, Precision.FP32)


def test_answers_matrices_and_curves_carry_it(estimator: Estimator) -> None:
    job = Job(model="zoo/one", batch_size=8, precision=Precision.BF16)
    without, with_units = parse_placement("V100-SXM2-16GB"), parse_placement("A10")
    (said,) = estimator.estimate(job, without).warnings
    assert "has no bf16 arithmetic" in said
    assert estimator.estimate(job, with_units).warnings == ()
    assert said in estimator.matrix([job], [without, with_units]).warnings


def test_tf32_is_fp32_where_it_is_not(estimator: Estimator) -> None:
    # Without units for TF32 the switch changes nothing, so that both are one question.
    prepared = estimator.core.prepare(Job(model="zoo/one", batch_size=8, precision=Precision.TF32))
    on_volta = prepared.on(CATALOG.get("V100-SXM2-16GB"))
    on_ampere = prepared.on(CATALOG.get("A10"))
    assert (on_volta.precision, on_ampere.precision) == (Precision.FP32, Precision.TF32)


@pytest.mark.parametrize(
    ("device", "precision", "factor"),
    [
        # AVX-512 without units for bf16; vectors of 256 bits; fp16 on anything but Granite Rapids.
        ("Xeon-Platinum-8380", Precision.BF16, 2.1),
        ("EPYC-7742", Precision.AMP_BF16, 15.0),
        ("EPYC-9654", Precision.FP16, 15.0),
        ("Xeon-Platinum-8380", Precision.AMP_FP16, 15.0),
        # 8 bits are widened through 16.
        ("EPYC-7513", Precision.FP8, 15.0),
        ("Xeon-Platinum-8380", Precision.FP8, 2.1),
    ],
)
def test_few_bits_without_units_take_a_cpu_longer_than_32(
    estimator: Estimator, device: str, precision: Precision, factor: float
) -> None:
    on = parse_placement(device)
    plain, emulated = (
        estimator.estimate(Job(model="zoo/one", batch_size=8, precision=p), on)
        for p in (Precision.FP32, precision)
    )
    assert emulated.step_time_s == pytest.approx(factor * plain.step_time_s)
    assert "Compute in fp32" in " ".join(emulated.warnings)
    assert emulated.basis is Basis.ANALYTICAL
    # The model's 0.8 and 1.25, and what the factor may be off.
    off = 1.3 if factor < 3 else 2.5
    not_learned = math.log(1.4) if precision is Precision.FP8 else 0.0
    wide = math.exp(math.hypot(math.log(1.25), math.log(off), not_learned))
    rate = emulated.throughput
    assert rate.samples_per_second / rate.low == pytest.approx(wide)
    assert rate.high / rate.samples_per_second == pytest.approx(wide)


@pytest.mark.parametrize(
    ("device", "precision"),
    [
        ("EPYC-9654", Precision.BF16),
        ("EPYC-9654", Precision.FP8),
        ("EPYC-7513", Precision.INT8),
        ("Xeon-6980P", Precision.FP16),
        ("Graviton2", Precision.FP16),
        ("Xeon-Platinum-8480-Plus", Precision.FP16),
        ("Xeon-Platinum-8592-Plus", Precision.FP16),
        ("EPYC-7742", Precision.TF32),
        ("V100-SXM2-16GB", Precision.BF16),
    ],
)
def test_nothing_is_emulated_where_units_are_or_nothing_is_known(
    device: str, precision: Precision
) -> None:
    assert emulation(precision, CATALOG.get(device)) is None


def test_the_factor_of_an_emulation_is_explained(estimator: Estimator) -> None:
    explains = Estimator(
        accelerators=CATALOG, model=AnalyticalModel(), graphs=estimator.core.graphs
    )
    job = Job(model="zoo/two", batch_size=8, precision=Precision.FP16)
    found = explains.explain(job, parse_placement("EPYC-7742"))
    factors = {one.name: one.factor for one in found.contributions}
    assert factors["emulated arithmetic"] == pytest.approx(15.0)
    assert found.contributions[-1].step_time_s == pytest.approx(found.estimate.step_time_s)


def test_openvino_is_answered_as_onnx_runtime_and_says_so(estimator: Estimator) -> None:
    place = parse_placement("EPYC-9654")
    openvino = Job(model="zoo/one", batch_size=8, compiler=Compiler.OPENVINO)
    answered = estimator.estimate(openvino, place)
    stand_in = estimator.estimate(replace(openvino, compiler=Compiler.ONNXRUNTIME), place)
    assert answered.step_time_s == stand_in.step_time_s
    assert any("Nothing was learned of OpenVINO" in said for said in answered.warnings)
    assert not any("OpenVINO" in said for said in stand_in.warnings)
    assert answered.basis in (Basis.ANALYTICAL, Basis.DEFAULT)


@pytest.mark.parametrize(
    ("asked", "word", "wider"),
    [
        ({"precision": Precision.INT8}, "int8", 4.0),
        ({"precision": Precision.FP8}, "fp8", 1.4),
        ({"compiler": Compiler.TENSORRT}, "TensorRT", 2.0),
        ({"compiler": Compiler.OPENVINO}, "OpenVINO", 1.5),
    ],
)
def test_what_nothing_was_learned_of_is_analytical_wide_and_says_so(
    estimator: Estimator, asked: dict[str, object], word: str, wider: float
) -> None:
    job = Job(model="zoo/one", batch_size=8, **asked)  # type: ignore[arg-type]
    found = estimator.estimate(job, parse_placement("H100-SXM5-80GB"))
    assert any(f"Nothing was learned of {word}" in said for said in found.warnings)
    assert found.basis in (Basis.ANALYTICAL, Basis.DEFAULT)
    rate = found.throughput
    assert rate.high / rate.samples_per_second >= wider
    assert rate.samples_per_second / rate.low >= wider

"""What is done to the prediction of a model before an answer starts from it.

What an accelerator has no arithmetic or no software for is refused or told, as is what nothing was
learned of. No model has learned steps with products in 8 bits: they are those in 16 bits, less what
they save. The program is that of 16 bits, and only the peak of its products is another, and in
inference the bytes of their weights. With the rooflines of its nodes in either::

    t_8 = t_16 - sum_i (roofline_16,i - roofline_8,i)

What a step takes beyond them, launches and products short of their peak, stays as long as it is,
so that a step is never slower for a higher peak. No step shrinks by more than its products do.
Left out: what scaling and casting cost (docs/adr/0074).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.single.engine import has_engine_law, single_with_engine
from perfmodel.estimator.single.plan_engine import single_with_plan_engine
from perfmodel.features.roofline import node_roofline
from perfmodel.graph.job import Job
from perfmodel.graph.workload import Workload
from perfmodel.intervals import wider
from perfmodel.predictors.emulation import EMULATED_WARNING, emulation
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import RUNG, Basis, Compiler, Precision

#: Said where a type is computed by units of another one.
NO_UNITS_WARNING = (
    "{device} has no {rate} arithmetic: matrix work is answered at its {used} rate. Frameworks may "
    "emulate {rate} there, slower still, or refuse it."
)

#: Said where TF32, a way to compute fp32, is switched on for nothing.
NO_TF32_WARNING = "{device} has no {rate} arithmetic: matrix work is answered at its {used} rate."


class NotLearned(NamedTuple):
    """Something that jobs may ask for and no predictor has learned from.

    Parameters
    ----------
    warning : str
        What is answered instead, for people.
    half_width : float
        What it adds to the half width of an interval, in logarithms.
    """

    warning: str
    half_width: float


#: ResNet-50 in int8 by TensorRT was published at 3 to 6.5 times the rates answered so on twelve
#: accelerators (MLPerf inference, Offline); the law of engines answers for inference by TensorRT.
_INT8 = NotLearned(
    "Nothing was learned of int8: products are answered at its peak, with weights of a byte, all "
    "else as in 16 bits. "
    "Engines that run whole layers in int8 are several times as fast.",
    math.log(4.0),
)
_FP8 = NotLearned(
    "Nothing was learned of fp8 but splits of language models by Megatron: one accelerator is "
    "answered with products at its peak and all else as in bf16; what scaling and casting cost is "
    "not known.",
    math.log(1.4),
)


class _Engine(NamedTuple):
    """A compiler that runs on some accelerators alone, and what is said of others, for people."""

    runs_on: Callable[[AcceleratorSpec], bool]
    warning: str
    learned: NotLearned | None


_BEFORE_VOLTA = frozenset({"Kepler", "Maxwell", "Pascal"})

#: OpenVINO was measured by this project, but no predictor learns from that yet: two steps took 1.35
#: and 1.54 times as long as by ONNX Runtime on the same CPU.
_ENGINES = {
    Compiler.TENSORRT: _Engine(
        lambda spec: (spec.vendor, spec.kind) == ("NVIDIA", "gpu"),
        "TensorRT runs on NVIDIA GPUs alone: the answer for {device} is that of a compiler which "
        "fuses as much.",
        NotLearned(
            "Nothing was learned of TensorRT: the answer is that of a compiler which fuses as "
            "much; tuned engines are faster.",
            math.log(2.0),
        ),
    ),
    Compiler.OPENVINO: _Engine(
        lambda spec: spec.kind == "cpu" or (spec.vendor, spec.kind) == ("Intel", "gpu"),
        "OpenVINO runs on CPUs and on GPUs by Intel alone: the answer for {device} is that "
        "of ONNX Runtime.",
        NotLearned(
            "Nothing was learned of OpenVINO: the answer for {device} is that of ONNX Runtime, "
            "which runs the same exported graph.",
            math.log(1.5),
        ),
    ),
    # Triton asks for compute capability 7.0 of GPUs by NVIDIA.
    Compiler.INDUCTOR: _Engine(
        lambda spec: spec.vendor != "NVIDIA" or spec.architecture.split()[0] not in _BEFORE_VOLTA,
        "PyTorch compiles for NVIDIA GPUs from Volta on: it does not run so on {device}, and the "
        "answer is what it might take.",
        None,
    ),
}


def not_learned(job: Job, spec: AcceleratorSpec) -> tuple[NotLearned, ...]:
    """Return what a job asks for on an accelerator that no predictor has learned from.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> job = Job(model="zoo/mlp", compiler=Compiler.OPENVINO)
    >>> [found.half_width for found in not_learned(job, Catalog.default().get("EPYC-9654"))]
    [0.4054651081081644]
    """
    if has_engine_law(job, spec):
        return ()
    of_type = {Precision.INT8: _INT8, Precision.FP8: _FP8}.get(job.arithmetic)
    engine = _ENGINES.get(job.compiler)
    found = (of_type, None if engine is None else engine.learned)
    return tuple(one for one in found if one is not None)


def unsupported(job: Job, spec: AcceleratorSpec) -> tuple[str, ...]:
    """Return what a job asks for and an accelerator has not, for people.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> unsupported(Job(model="zoo/mlp", precision=Precision.BF16), Catalog.default().get("A10"))
    ()
    """
    said = []
    slower, rate = emulation(job.arithmetic, spec), job.arithmetic.matrix_rate
    if slower is not None:
        said.append(
            EMULATED_WARNING.format(device=spec.name, rate=rate, what="step", factor=slower.factor)
        )
    elif not spec.supports(job.arithmetic):
        used = spec.rate_of(job.arithmetic)
        text = NO_TF32_WARNING if job.arithmetic is Precision.TF32 else NO_UNITS_WARNING
        said.append(text.format(device=spec.name, rate=rate, used=used))
    engine = _ENGINES.get(job.compiler)
    if engine is not None and not engine.runs_on(spec):
        said.append(engine.warning.format(device=spec.name))
    said += [found.warning.format(device=spec.name) for found in not_learned(job, spec)]
    return tuple(said)


def with_unsupported(prediction: Prediction, job: Job, spec: AcceleratorSpec) -> Prediction:
    """Return a prediction that also says what the accelerator has not, and what that costs.

    Parameters
    ----------
    prediction : Prediction
        As :meth:`~perfmodel.devices.spec.AcceleratorSpec.computed_as` has it computed.
    """
    said = unsupported(job, spec)
    if not said:
        return prediction
    slower, unknown = emulation(job.arithmetic, spec), not_learned(job, spec)
    factor, wide, basis = 1.0, 0.0, prediction.basis
    if slower is not None:
        factor, wide = slower
    wide = math.hypot(wide, *(found.half_width for found in unknown))
    if slower is not None or unknown:
        basis = max(prediction.basis, Basis.ANALYTICAL, key=RUNG.__getitem__)
    time_s = prediction.time_s * factor
    return replace(
        prediction,
        time_s=time_s,
        low_s=time_s * wider(prediction.low_s / prediction.time_s, wide),
        high_s=time_s * wider(prediction.high_s / prediction.time_s, wide),
        basis=basis,
        out_of_distribution=prediction.out_of_distribution or slower is not None,
        warnings=(*prediction.warnings, *said),
    )


#: Types of products that no model has learned.
_NARROW = (Precision.FP8, Precision.INT8)


def learned_step(prepared: PreparedJob, spec: AcceleratorSpec) -> Workload:
    """Return the step that a model is asked about: in 16 bits where products have fewer."""
    asked = prepared.on(spec)
    if asked.precision not in _NARROW:
        return asked
    in_16_bits = Precision.BF16 if spec.supports(Precision.BF16) else Precision.FP16
    return replace(asked, precision=spec.computed_as(in_16_bits))


def has_narrow_products(prepared: PreparedJob, spec: AcceleratorSpec) -> bool:
    """Tell whether products run at a peak that no model has learned."""
    return prepared.on(spec).precision in _NARROW


def with_narrow_products(
    prepared: PreparedJob, spec: AcceleratorSpec, prediction: Prediction
) -> Prediction:
    """Return the prediction of a step from that of :func:`learned_step`."""
    if not has_narrow_products(prepared, spec):
        return prediction
    at_8 = node_roofline(prepared.on(spec)).roofline_s
    at_16 = node_roofline(learned_step(prepared, spec)).roofline_s
    products = at_8 != at_16
    if not products.any():
        return prediction
    narrow_s, wide_s = float(at_8[products].sum()), float(at_16[products].sum())
    saved = 1.0 - (wide_s - narrow_s) / prediction.time_s
    return _longer(prediction, max(saved, min(1.0, narrow_s / wide_s)))


def _longer(prediction: Prediction, factor: float) -> Prediction:
    return replace(
        prediction,
        low_s=factor * prediction.low_s,
        time_s=factor * prediction.time_s,
        high_s=factor * prediction.high_s,
    )


def revised(
    prepared: PreparedJob,
    spec: AcceleratorSpec,
    prediction: Prediction,
    of_whole: Prediction | None = None,
) -> Prediction:
    """Return the prediction of a whole step: all its micro-batches, and what a model cannot know.

    Parameters
    ----------
    prediction : Prediction
        Of :func:`learned_step`.
    of_whole : Prediction or None
        The same of ``prepared.whole``, where there is one: what is trained of it takes as much of
        its step as is predicted.

    Raises
    ------
    ArithmeticError
        It is not finite, not positive or not in order.
    """
    prediction = _of_all_micro_batches(prepared, spec, prediction)
    if prepared.whole is not None and of_whole is not None:
        of_all = _of_all_micro_batches(prepared.whole, spec, of_whole)
        part = prediction.time_s / of_all.time_s
        prediction = _longer(single_with_plan_engine(prepared.whole, spec, of_all), part)
    elif prepared.has_plan_engine:
        prediction = single_with_plan_engine(prepared, spec, prediction)
    if has_engine_law(prepared.job, spec):
        prediction = single_with_engine(prepared, spec, prediction)
    return with_unsupported(prediction, prepared.job, spec)


def _of_all_micro_batches(
    prepared: PreparedJob, spec: AcceleratorSpec, prediction: Prediction
) -> Prediction:
    """Return the prediction of a whole step from that of :func:`learned_step`."""
    numbers = (prediction.low_s, prediction.time_s, prediction.high_s)
    if not (all(map(math.isfinite, numbers)) and 0 < numbers[0] <= numbers[1] <= numbers[2]):
        raise ArithmeticError(
            f"{prediction.model_version} predicted the interval {numbers}; it must be finite, "
            "positive and in order."
        )
    prediction = with_narrow_products(prepared, spec, prediction)
    factor = prepared.step.time_factor * (1.0 + attention_again(prepared, spec))
    return prediction if factor == 1.0 else _longer(prediction, factor)


def attention_again(prepared: PreparedJob, spec: AcceleratorSpec) -> float:
    """Return what checkpointing of attention alone adds to a step, as a share of it.

    The graph has its nodes once (that of layers is in the graph); by the roofline of the step.
    """
    if not prepared.computed_again:
        return 0.0
    roofline_s = node_roofline(prepared.on(spec)).roofline_s
    return float(roofline_s[prepared.computed_again].sum() / roofline_s.sum())

"""What an accelerator has no arithmetic or no software for, though a job asks for it."""

from __future__ import annotations

import math
from dataclasses import replace

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.single.emulation import emulation
from perfmodel.graph.job import Job
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import RUNG, Basis, Compiler, Precision

#: Said where a type is computed by units of another one.
NO_UNITS_WARNING = (
    "{device} has no {rate} arithmetic: matrix work is answered at its {used} rate. Frameworks may "
    "emulate {rate} there, slower still, or refuse it."
)

#: Said where TF32, a way to compute fp32, is switched on for nothing.
NO_TF32_WARNING = "{device} has no {rate} arithmetic: matrix work is answered at its {used} rate."

#: Said where 16 bits are emulated on a CPU.
EMULATED_WARNING = (
    "{device} has no {rate} arithmetic: the step is answered as {factor:g} times that of fp32 "
    "arithmetic on tensors of 16 bits; libraries without kernels for it were seen to take about as "
    "long. Compute in fp32 there."
)

#: Said of TensorRT on accelerators of other makers.
NO_TENSORRT_WARNING = (
    "TensorRT runs on NVIDIA GPUs alone: the answer for {device} is that of a compiler which fuses "
    "as much."
)

#: Said of OpenVINO, which nothing was learned of.
NO_OPENVINO_WARNING = (
    "Nothing was learned of OpenVINO: the answer for {device} is that of ONNX Runtime, which runs "
    "the same exported graph."
)


def unsupported(job: Job, spec: AcceleratorSpec) -> tuple[str, ...]:
    """Return what a job asks for and an accelerator has not, for people.

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> unsupported(Job(model="zoo/mlp", precision=Precision.BF16), Catalog.default().get("A10"))
    ()
    """
    said = []
    slower, rate = emulation(job, spec), job.precision.matrix_rate
    if slower is not None:
        said.append(EMULATED_WARNING.format(device=spec.name, rate=rate, factor=slower.factor))
    elif not spec.supports(job.precision):
        used = spec.rate_of(job.precision)
        text = NO_TF32_WARNING if job.precision is Precision.TF32 else NO_UNITS_WARNING
        said.append(text.format(device=spec.name, rate=rate, used=used))
    if job.compiler is Compiler.TENSORRT and (spec.vendor, spec.kind) != ("NVIDIA", "gpu"):
        said.append(NO_TENSORRT_WARNING.format(device=spec.name))
    if job.compiler is not job.compiler.answered_as:
        said.append(NO_OPENVINO_WARNING.format(device=spec.name))
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
    slower = emulation(job, spec)
    factor, wide, basis = 1.0, 0.0, prediction.basis
    if slower is not None:
        factor, wide = slower
    if slower is not None or job.compiler is not job.compiler.answered_as:
        basis = max(prediction.basis, Basis.ANALYTICAL, key=RUNG.__getitem__)
    time_s = prediction.time_s * factor
    return replace(
        prediction,
        time_s=time_s,
        low_s=time_s * _wider(prediction.low_s / prediction.time_s, wide),
        high_s=time_s * _wider(prediction.high_s / prediction.time_s, wide),
        basis=basis,
        out_of_distribution=prediction.out_of_distribution or slower is not None,
        warnings=(*prediction.warnings, *said),
    )


def _wider(end: float, half_width: float) -> float:
    """Return an end of an interval, over its middle, with an independent width added."""
    if not half_width:
        return end
    return math.exp(math.copysign(math.hypot(math.log(end), half_width), math.log(end)))

"""What an accelerator has no arithmetic or no software for, though a job asks for it."""

from __future__ import annotations

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.model import StepPrediction
from perfmodel.graph.job import Job
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Compiler

#: Said where a type is computed by units of another one.
NO_UNITS_WARNING = (
    "{device} has no {rate} arithmetic: matrix work is answered at its {used} rate. Frameworks may "
    "emulate {rate} there, slower still, or refuse it."
)

#: Said of TensorRT on accelerators of other makers.
NO_TENSORRT_WARNING = (
    "TensorRT runs on NVIDIA GPUs alone: the answer for {device} is that of a compiler which fuses "
    "as much."
)


def unsupported(job: Job, spec: AcceleratorSpec) -> tuple[str, ...]:
    """Return what a job asks for and an accelerator has not, for people.

    Parameters
    ----------
    job : Job
    spec : AcceleratorSpec

    Examples
    --------
    >>> from perfmodel.devices.catalog import Catalog
    >>> from perfmodel.types import Precision
    >>> unsupported(Job(model="zoo/mlp", precision=Precision.BF16), Catalog.default().get("A10"))
    ()
    """
    said = []
    if not spec.supports(job.precision):
        rate = job.precision.matrix_rate
        used = spec.rate_of(job.precision)
        said.append(NO_UNITS_WARNING.format(device=spec.name, rate=rate, used=used))
    if job.compiler is Compiler.TENSORRT and (spec.vendor, spec.kind) != ("NVIDIA", "gpu"):
        said.append(NO_TENSORRT_WARNING.format(device=spec.name))
    return tuple(said)


def with_unsupported(prediction: StepPrediction, job: Job, spec: AcceleratorSpec) -> StepPrediction:
    """Return a prediction that also says what the accelerator has not.

    Parameters
    ----------
    prediction : StepPrediction
    job : Job
    spec : AcceleratorSpec
    """
    said = unsupported(job, spec)
    if not said:
        return prediction
    return Prediction(
        time_s=prediction.time_s,
        low_s=prediction.low_s,
        high_s=prediction.high_s,
        coverage=prediction.coverage,
        basis=prediction.basis,
        out_of_distribution=prediction.out_of_distribution,
        nearest=tuple(prediction.nearest),
        model_version=prediction.model_version,
        warnings=(*prediction.warnings, *said),
    )

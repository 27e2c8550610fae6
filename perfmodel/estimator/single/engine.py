"""Inference by TensorRT: the law of tuned engines answers in place of the model."""

from __future__ import annotations

import math
from dataclasses import replace

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.graph.job import Job
from perfmodel.placement.fitted import fitted
from perfmodel.predictors.engines.engine_kernels import engine_kernels
from perfmodel.predictors.engines.engine_law import EngineLaw, is_covered
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis, Compiler, Mode

#: Said of every answer of the law.
ENGINE_WARNING = (
    "An engine tuned as vendors tune it for MLPerf inference is answered; one that was exported "
    "and built without tuning is slower."
)
#: Said where the graph has operators of kinds that the law was not fitted on.
UNKNOWN_KERNELS_WARNING = (
    "The law of engines was not fitted on recurrent, resampling and grouped operators, or on those "
    "without a cost formula; this graph has some."
)
#: Samples of a step from which it counts as a whole batch.
_BATCHED = 32
#: What kernels of other kinds add to the half width, in logarithms.
_UNKNOWN = math.log(2.0)


def has_engine_law(job: Job, spec: AcceleratorSpec) -> bool:
    """Tell whether the law of tuned engines answers for a job on an accelerator."""
    return (
        job.compiler is Compiler.TENSORRT
        and job.mode is Mode.INFERENCE
        and is_covered(spec, job.arithmetic)
    )


def engine_roofline_s(prepared: PreparedJob, spec: AcceleratorSpec) -> float:
    """Return the time of an engine's kernels at the peak and the full bandwidth."""
    law = EngineLaw(**fitted("engines")["law"])
    kernels = engine_kernels(prepared.step.graph)
    return law.roofline_s(kernels, spec, prepared.job.arithmetic) * prepared.step.time_factor


def single_with_engine(
    prepared: PreparedJob, spec: AcceleratorSpec, prediction: Prediction
) -> Prediction:
    """Return the answer of the law of tuned engines for a step.

    Parameters
    ----------
    prepared : PreparedJob
        One of :func:`has_engine_law`.
    prediction : Prediction
        Of the model, whose version it keeps.
    """
    constants = fitted("engines")
    kernels = engine_kernels(prepared.step.graph)
    law = EngineLaw(**constants["law"])
    time_s = law.time_s(kernels, spec, prepared.job.arithmetic) * prepared.step.time_factor
    batched = prepared.job.batch_size >= _BATCHED
    half = constants["half_width"]["batched" if batched else "single"]
    if not kernels.is_known:
        half = math.hypot(half, _UNKNOWN)
    unknown = () if kernels.is_known else (UNKNOWN_KERNELS_WARNING,)
    return replace(
        prediction,
        time_s=time_s,
        low_s=time_s / math.exp(half),
        high_s=time_s * math.exp(half),
        basis=Basis.EXTRAPOLATED if kernels.is_known else Basis.ANALYTICAL,
        out_of_distribution=not kernels.is_known,
        nearest=(),
        warnings=(ENGINE_WARNING, *unknown),
    )

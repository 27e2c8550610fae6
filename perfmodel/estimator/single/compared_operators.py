"""Traced operators beside what the model would have predicted for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.estimator.single.loading import load_model
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.sketch import StepSketch, step_sketch
from perfmodel.features.steps.step import Step
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.predictors.kernels.kernel_times import (
    DEVICE_LAUNCH_RANGE_S,
    LAUNCH_S,
    AnalyticalKernels,
    KernelModel,
)
from perfmodel.predictors.kernels.step_kernels import StepKernels, step_kernels
from perfmodel.predictors.prediction import Prediction, StepModel
from perfmodel.traces.analysis.explanation import TraceExplanation
from perfmodel.traces.analysis.operator_work import PricedOperator
from perfmodel.types import Basis, Mode, Precision

#: Classes of which a kernel reads its operands once and writes its result, and how often its
#: blocks wait for each other besides: a sum is one of parts, and then of what these came to.
#: Statistics of norms wait longer than that, on few cores.
_WAITS: Mapping[int, float] = MappingProxyType(
    {
        OP_CLASSES.index(one): waits
        for one, waits in (
            (OpClass.ELEMENTWISE, 0.0), (OpClass.CREATION, 0.0), (OpClass.MOVEMENT, 0.0),
            (OpClass.INDEXING, 0.0), (OpClass.REDUCTION, 1.0),
        )
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OperatorCall:
    """One call of an operator."""

    graph: Graph
    precision: Precision


def predict_operators(
    model: StepModel,
    calls: Sequence[OperatorCall],
    device: AcceleratorSpec,
    kernels: KernelModel | None = None,
) -> list[Prediction]:
    """Return the device time of each call.

    Parameters
    ----------
    model : StepModel
        One without a joint predictor answers each call as a whole step, overhead included. Of
        calls on a GPU that only move or sum their operands its answer is no longer than such
        kernels typically take: it holds the host, which takes longer to launch a short call.
    kernels : KernelModel or None
        Answers instead of it for what it has learned on several devices of the maker.
    """
    found = _by_model(model, calls, device)
    if device.kind != "gpu":
        return found
    return [
        _by_kernels(kernels or AnalyticalKernels(), call, device, otherwise)
        for call, otherwise in zip(calls, found, strict=True)
    ]


def _by_kernels(
    model: KernelModel, call: OperatorCall, device: AcceleratorSpec, otherwise: Prediction
) -> Prediction:
    sketch, precision = step_sketch(call.graph), device.computed_as(call.precision)
    found = step_kernels(model, sketch, device, precision)
    works = found.time_s > 0
    if not works.any():
        return otherwise
    if found.carries_over[works].all():
        return _of_kernels(found, sketch, otherwise, Basis.EXTRAPOLATED, model.version)
    if not np.isin(sketch.op_class[works], list(_WAITS)).all():
        return otherwise
    typical = AnalyticalKernels()
    found = _waiting(step_kernels(typical, sketch, device, precision), sketch)
    bound = _of_kernels(found, sketch, otherwise, Basis.ANALYTICAL, typical.version)
    return min(bound, otherwise, key=lambda one: one.time_s)


def _waiting(found: StepKernels, sketch: StepSketch) -> StepKernels:
    """Return kernels with the waits of their blocks, each as long as a device launches anew."""
    waits = np.array([_WAITS.get(int(code), 0.0) for code in sketch.op_class])
    waits[found.time_s <= 0] = 0.0
    shortest_s, longest_s = DEVICE_LAUNCH_RANGE_S
    return replace(
        found,
        time_s=found.time_s + LAUNCH_S * waits,
        low_s=found.low_s + shortest_s * waits,
        high_s=found.high_s + longest_s * waits,
    )


def _of_kernels(
    found: StepKernels, sketch: StepSketch, otherwise: Prediction, basis: Basis, version: str
) -> Prediction:
    time_s, low_s, high_s = (
        float(each @ sketch.count) for each in (found.time_s, found.low_s, found.high_s)
    )
    return replace(
        otherwise, time_s=time_s, low_s=low_s, high_s=high_s, basis=basis,
        out_of_distribution=False, nearest=(), model_version=version, warnings=(),
    )  # fmt: skip


def _by_model(
    model: StepModel, calls: Sequence[OperatorCall], device: AcceleratorSpec
) -> list[Prediction]:
    from perfmodel.predictors.serving.serving import ServingModel

    joint = model.joint if isinstance(model, ServingModel) else None
    if joint is not None and calls:
        return joint.predict([_alone(call, device) for call in calls])
    return list(
        model.predict(
            [
                Workload(
                    graph=call.graph,
                    accelerator=device,
                    mode=Mode.INFERENCE,
                    batch_size=1,
                    precision=device.computed_as(call.precision),
                )
                for call in calls
            ]
        )
    )


def _alone(call: OperatorCall, device: AcceleratorSpec) -> Step:
    return Step(
        sketch=step_sketch(call.graph),
        accelerator=device,
        mode=Mode.INFERENCE,
        batch_size=1,
        precision=device.computed_as(call.precision),
        alone=True,
    )


@dataclass(frozen=True, kw_only=True)
class ComparedOperator:
    """A traced operator and its prediction.

    Parameters
    ----------
    prediction : Prediction or None
        Of one call; None where the operator has no price or the device is not known.
    """

    priced: PricedOperator
    prediction: Prediction | None = None


def compared_operators(
    found: TraceExplanation, models: Path | None
) -> tuple[ComparedOperator, ...]:
    """Return the operators of a trace with their predictions, in the same order.

    Parameters
    ----------
    models : Path or None
        Folder of trained models; None asks none.
    """
    asked = [one for one in found.operators if one.graph is not None]
    if models is None or found.accelerator is None or not asked:
        return tuple(ComparedOperator(priced=one) for one in found.operators)
    calls = [
        OperatorCall(graph=one.graph, precision=one.precision)
        for one in asked
        if one.graph is not None
    ]
    model, (kernels, _) = load_model(models).model, load_kernels(models)
    answers = iter(predict_operators(model, calls, found.accelerator, kernels))
    return tuple(
        ComparedOperator(priced=one, prediction=None if one.graph is None else next(answers))
        for one in found.operators
    )

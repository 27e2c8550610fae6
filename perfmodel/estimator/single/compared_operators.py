"""Traced operators beside what the model would have predicted for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.kernels.loading import load_kernels
from perfmodel.estimator.single.loading import load_model
from perfmodel.features.arrays import BoolArray
from perfmodel.features.nodes import OP_CLASSES
from perfmodel.features.steps.sketch import StepSketch, step_sketch
from perfmodel.features.steps.step import Step
from perfmodel.graph.cost.base import OpClass
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.predictors.kernels.kernel_times import (
    AnalyticalKernels,
    KernelModel,
)
from perfmodel.predictors.kernels.step_kernels import StepKernels, step_kernels
from perfmodel.predictors.prediction import Prediction, StepModel
from perfmodel.traces.analysis.explanation import TraceExplanation
from perfmodel.traces.analysis.operator_work import PricedOperator
from perfmodel.traces.trace import TracedTensor
from perfmodel.types import Basis, Mode, Precision

#: Classes that move, sum or normalise: kernels that read their operands and write a result, as fast
#: as memory gives, and wait for sums in between.
_STREAMING = tuple(
    OP_CLASSES.index(one)
    for one in (
        OpClass.ELEMENTWISE, OpClass.CREATION, OpClass.MOVEMENT, OpClass.INDEXING,
        OpClass.REDUCTION, OpClass.NORMALIZATION, OpClass.SOFTMAX,
    )
)  # fmt: skip


_POINTWISE = (OP_CLASSES.index(OpClass.ELEMENTWISE), OP_CLASSES.index(OpClass.MOVEMENT))


@dataclass(frozen=True, kw_only=True)
class OperatorCall:
    """One call of an operator.

    Parameters
    ----------
    is_even : bool
        Whether its operands are of one size and lie in memory alike, without gaps. Those in tables
        do; PyTorch takes others of point-wise operators element by element.
    """

    graph: Graph
    precision: Precision
    is_even: bool = True


def operator_call(one: PricedOperator) -> OperatorCall | None:
    """Return what is asked of a traced operator; None of one without a price."""
    if one.graph is None:
        return None
    arguments = one.operator.arguments
    tensors = arguments.tensors if arguments is not None else ()
    return OperatorCall(graph=one.graph, precision=one.precision, is_even=_are_even(tensors))


def _are_even(tensors: Sequence[TracedTensor]) -> bool:
    whole = [tensor for tensor in tensors if math.prod(tensor.shape) > 1]
    return len({(one.shape, one.strides) for one in whole}) <= 1 and all(map(_is_dense, whole))


def _is_dense(tensor: TracedTensor) -> bool:
    if tensor.strides is None:
        return True
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.strides, strict=True))
    return reach + 1 == math.prod(tensor.shape)


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
        calls on a GPU that move, sum or normalise their operands its answer is no longer than such
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
    uneven = not call.is_even and np.isin(sketch.op_class, _POINTWISE)
    learned = found.carries_over & ~np.asarray(uneven)
    if learned[works].all():
        return _of_kernels(found, sketch, otherwise, Basis.EXTRAPOLATED, model.version)
    if not (learned | np.isin(sketch.op_class, _STREAMING))[works].all():
        return otherwise
    typical = AnalyticalKernels()
    found = _where(learned, found, step_kernels(typical, sketch, device, precision))
    bound = _of_kernels(found, sketch, otherwise, Basis.ANALYTICAL, typical.version)
    return min(bound, otherwise, key=lambda one: one.time_s)


def _where(chosen: BoolArray, one: StepKernels, other: StepKernels) -> StepKernels:
    """Return some rows of one and the rest of the other."""
    columns = (field.name for field in fields(StepKernels))
    return StepKernels(**{n: np.where(chosen, getattr(one, n), getattr(other, n)) for n in columns})


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
    asked = [operator_call(one) for one in found.operators]
    calls = [call for call in asked if call is not None]
    if models is None or found.accelerator is None or not calls:
        return tuple(ComparedOperator(priced=one) for one in found.operators)
    model, (kernels, _) = load_model(models).model, load_kernels(models)
    answers = iter(predict_operators(model, calls, found.accelerator, kernels))
    return tuple(
        ComparedOperator(priced=one, prediction=None if call is None else next(answers))
        for one, call in zip(found.operators, asked, strict=True)
    )

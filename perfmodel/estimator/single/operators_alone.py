"""The time of single operators on a device, as the model that answers for whole steps has it.

Kernels that were learned alone on several devices of a maker answer for others of it. For the rest
the joint predictor has learned from operators that were measured alone, beside whole steps: an
operator is asked of it as a step of its own in which the device never waits for the host. Operators
alone are only known without gradients, so that parts of backward passes are asked as inference too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.single.step_model import StepModel
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.features.steps.step import Step
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.predictors.kernels.kernel_times import KernelModel
from perfmodel.predictors.kernels.step_kernels import step_kernels
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Basis, Mode, Precision


@dataclass(frozen=True, kw_only=True)
class OperatorCall:
    """One call of an operator.

    Parameters
    ----------
    graph : Graph
        Of the call alone.
    """

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
        One without a joint predictor answers each call as a whole step, overhead included.
    kernels : KernelModel or None
        Answers instead of it for what it has learned on several devices of the maker.
    """
    found = _by_model(model, calls, device)
    if kernels is None:
        return found
    return [
        _by_kernels(kernels, call, device, otherwise)
        for call, otherwise in zip(calls, found, strict=True)
    ]


def _by_kernels(
    model: KernelModel, call: OperatorCall, device: AcceleratorSpec, otherwise: Prediction
) -> Prediction:
    sketch = step_sketch(call.graph)
    found = step_kernels(model, sketch, device, device.computed_as(call.precision))
    works = found.time_s > 0
    if not works.any() or not found.carries_over[works].all():
        return otherwise
    time_s, low_s, high_s = (
        float(each @ sketch.count) for each in (found.time_s, found.low_s, found.high_s)
    )
    return replace(
        otherwise, time_s=time_s, low_s=low_s, high_s=high_s, basis=Basis.EXTRAPOLATED,
        out_of_distribution=False, nearest=(), model_version=model.version, warnings=(),
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

"""The time of single operators on a device, as the model that answers for whole steps has it.

The joint predictor has learned from operators that were measured alone, beside whole steps: an
operator is asked of it as a step of its own in which the device never waits for the host. Operators
alone are only known without gradients, so that parts of backward passes are asked as inference too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.single.step_model import StepModel
from perfmodel.features.steps.sketch import step_sketch
from perfmodel.features.steps.step import Step
from perfmodel.graph.ir import Graph
from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import Prediction
from perfmodel.types import Mode, Precision


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
    model: StepModel, calls: Sequence[OperatorCall], device: AcceleratorSpec
) -> list[Prediction]:
    """Return the device time of each call.

    Parameters
    ----------
    model : StepModel
        One without a joint predictor answers each call as a whole step, overhead included.
    """
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

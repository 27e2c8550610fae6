"""What is done to the prediction of a model before an answer starts from it."""

from __future__ import annotations

import math
from dataclasses import replace

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.single.engine import has_engine_law, single_with_engine
from perfmodel.estimator.single.plan_engine import single_with_plan_engine
from perfmodel.estimator.single.unsupported import with_unsupported
from perfmodel.predictors.prediction import Prediction


def revised(prepared: PreparedJob, spec: AcceleratorSpec, prediction: Prediction) -> Prediction:
    """Return the prediction of a whole step: all its micro-batches, and what a model cannot know.

    Raises
    ------
    ArithmeticError
        It is not finite, not positive or not in order.
    """
    numbers = (prediction.low_s, prediction.time_s, prediction.high_s)
    if not (all(map(math.isfinite, numbers)) and 0 < numbers[0] <= numbers[1] <= numbers[2]):
        raise ArithmeticError(
            f"{prediction.model_version} predicted the interval {numbers}; it must be finite, "
            "positive and in order."
        )
    factor = prepared.step.time_factor
    if factor != 1.0:
        low_s, time_s, high_s = (number * factor for number in numbers)
        prediction = replace(prediction, low_s=low_s, time_s=time_s, high_s=high_s)
    if prepared.has_plan_engine:
        prediction = single_with_plan_engine(prepared, spec, prediction)
    if has_engine_law(prepared.job, spec):
        prediction = single_with_engine(prepared, spec, prediction)
    return with_unsupported(prediction, prepared.job, spec)

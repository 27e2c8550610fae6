"""Steps of jobs on one accelerator each: predicted once, and kept."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from copy import copy
from typing import NamedTuple, Self

from perfmodel.devices.spec import AcceleratorSpec
from perfmodel.estimator.jobs.prepared_job import PreparedJob
from perfmodel.estimator.single.plan_engine import single_with_plan_engine
from perfmodel.estimator.single.step_model import StepModel, StepPrediction
from perfmodel.estimator.single.unsupported import with_unsupported
from perfmodel.graph.workload import Workload
from perfmodel.lru import LruCache
from perfmodel.predictors.prediction import Prediction


class _On(NamedTuple):
    prepared: PreparedJob
    accelerator: AcceleratorSpec
    workload: Workload


class PredictedSteps:
    """What a model said of jobs on single accelerators; safe to share between threads.

    Parameters
    ----------
    capacity : int
        Predictions kept at most.
    """

    def __init__(self, model: StepModel, capacity: int) -> None:
        self.model = model
        self._kept: LruCache[tuple[str, str], StepPrediction] = LruCache(capacity)

    def asking(self, model: StepModel) -> Self:
        """Return the same memory over another model."""
        view = copy(self)
        view.model = model
        return view

    def take_over(self, other: PredictedSteps, *, changed: Container[str]) -> None:
        """Keep what another memory of the same model holds, devices that have changed aside."""
        self._kept.put_all([pair for pair in other._kept.items() if pair[0][1] not in changed])

    def known(self, prepared: PreparedJob, accelerator: AcceleratorSpec) -> StepPrediction | None:
        """Return what is kept of a job on an accelerator; never runs the model."""
        return self._kept.get((prepared.key, accelerator.name))

    def recent(self, most: int) -> list[tuple[str, str]]:
        """Return keys of jobs and names of accelerators that were last asked about."""
        return self._kept.recent(most)

    def of(self, pairs: Sequence[tuple[PreparedJob, AcceleratorSpec]]) -> list[StepPrediction]:
        """Return the prediction of each job on one accelerator; each pair is predicted once.

        All that are not in memory go to the model in a single call.
        """
        keys = [(prepared.key, accelerator.name) for prepared, accelerator in pairs]
        found: dict[tuple[str, str], StepPrediction] = {}
        missing: dict[tuple[str, str], _On] = {}
        for key, (prepared, accelerator) in zip(keys, pairs, strict=True):
            known = self._kept.get(key)
            if known is not None:
                found[key] = known
            elif key not in missing:
                missing[key] = _On(prepared, accelerator, prepared.on(accelerator))
        if missing:
            answers = self.model.predict([on.workload for on in missing.values()])
            for key, on, prediction in zip(missing, missing.values(), answers, strict=True):
                _check(prediction)
                prediction = _longer(prediction, on.prepared.step.time_factor)
                if on.prepared.has_plan_engine:
                    prediction = single_with_plan_engine(on.prepared, on.accelerator, prediction)
                prediction = with_unsupported(prediction, on.prepared.job, on.accelerator)
                found[key] = prediction
                self._kept.put(key, prediction)
        return [found[key] for key in keys]


def _longer(prediction: StepPrediction, factor: float) -> StepPrediction:
    """Return the prediction of a step so many times as long as that of its graph."""
    if factor == 1.0:
        return prediction
    return Prediction(
        time_s=prediction.time_s * factor,
        low_s=prediction.low_s * factor,
        high_s=prediction.high_s * factor,
        coverage=prediction.coverage,
        basis=prediction.basis,
        out_of_distribution=prediction.out_of_distribution,
        nearest=tuple(prediction.nearest),
        model_version=prediction.model_version,
        warnings=tuple(prediction.warnings),
    )


def _check(prediction: StepPrediction) -> None:
    numbers = (prediction.low_s, prediction.time_s, prediction.high_s)
    if not (all(map(math.isfinite, numbers)) and 0 < numbers[0] <= numbers[1] <= numbers[2]):
        raise ArithmeticError(
            f"{prediction.model_version} predicted the interval {numbers}; it must be finite, "
            "positive and in order."
        )

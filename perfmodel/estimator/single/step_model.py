"""What the estimator asks of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perfmodel.graph.workload import Workload
from perfmodel.predictors.prediction import Prediction


class StepModel(Protocol):
    """Predicts step times; every answer of one call comes from one model version."""

    @property
    def version(self) -> str:
        """``"<name>/<version>"``, as answers cite it."""

    def predict(self, workloads: Sequence[Workload]) -> Sequence[Prediction]:
        """Return one prediction for each workload, in order."""

"""What the estimator asks of a model, and the analytical one it always has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perfmodel.graph.workload import Workload
from perfmodel.types import Basis


class StepPrediction(Protocol):
    """The predicted time of one step on one accelerator, and what it rests on."""

    @property
    def time_s(self) -> float:
        """Step time, seconds, > 0."""

    @property
    def low_s(self) -> float:
        """Lower end of the interval, seconds."""

    @property
    def high_s(self) -> float:
        """Upper end of the interval, seconds."""

    @property
    def coverage(self) -> float:
        """Share of true times that such intervals contain."""

    @property
    def basis(self) -> Basis:
        """Rung of the ladder of evidence."""

    @property
    def out_of_distribution(self) -> bool:
        """Whether the workload lies outside what the model has seen."""

    @property
    def nearest(self) -> tuple[str, ...]:
        """Most similar measured workloads, best first."""

    @property
    def model_version(self) -> str:
        """Which model said so."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the model leaves out."""


class StepModel(Protocol):
    """Predicts step times; every answer of one call comes from one model version."""

    @property
    def version(self) -> str:
        """``"<name>/<version>"``, as answers cite it."""

    def predict(self, workloads: Sequence[Workload]) -> Sequence[StepPrediction]:
        """Return one prediction for each workload, in order."""

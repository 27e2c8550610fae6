"""The Prediction: the time of one step on one accelerator, what it rests on, and who gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perfmodel.graph.workload import Workload
from perfmodel.types import Basis


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a trained model says about one workload.

    Parameters
    ----------
    time_s, low_s, high_s : float
        Step time and its interval, ``0 < low_s <= time_s <= high_s``.
    coverage : float
        Share of measured times that such intervals contain, in (0, 1).
    out_of_distribution : bool
        The workload lies outside of what the model has learned from.
    nearest : tuple of str
        Most similar measured workloads, best first.
    model_version : str
        ``"<name>/<version>"``.
    """

    time_s: float
    low_s: float
    high_s: float
    coverage: float
    basis: Basis
    out_of_distribution: bool
    nearest: tuple[str, ...]
    model_version: str
    warnings: tuple[str, ...] = ()


class StepModel(Protocol):
    """Predicts step times; every answer of one call comes from one model version."""

    @property
    def version(self) -> str:
        """``"<name>/<version>"``, as answers cite it."""

    def predict(self, workloads: Sequence[Workload]) -> Sequence[Prediction]:
        """Return one prediction for each workload, in order."""
